"""Price a staged program for one candidate, or for every candidate of a space at once.

In: a staged-stage program (after boundary handling), a machine and the values of its parameters:
integers, or arrays with one element per candidate. Out: an `Estimate` of the same form. The walk
prices each transfer and call once per kind of iteration it depends on (first, middle, last: only a
last tile is smaller, only a first step initialises), as arrays over the tiles; `cost.pipeline`
composes them loop by loop (swATOP 4.6, with the loop's real pipeline in place of its "maximum of
two sums"). Nests of one seed hold the same few kinds of calls and transfers on small arrays of
tiles: those that are priced alike are one array, or most of the time would be that of calling
NumPy.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.common.classes import FEW_ROWS, classes_of_table
from tilewright.common.deferred import Deferred
from tilewright.common.expr import Value, evaluate
from tilewright.cost.buffers import scratchpad_bytes
from tilewright.cost.calls import PricedCall, call_cycles
from tilewright.cost.chain import Prepared, take_apart
from tilewright.cost.moments import Costed
from tilewright.cost.pipeline_types import (
    CALL,
    COPY,
    KEPT,
    MARKS,
    PLACES,
    BufferSlots,
    Clock,
    Cost,
    Count,
    Crowd,
    Flags,
    Floats,
    Ints,
    Item,
    KeptAction,
    LoopLevel,
    Mark,
    Rows,
    Served,
    StateRecords,
    Stride,
    Tables,
    first_of,
    records,
)
from tilewright.cost.prices import Prices, prices_of
from tilewright.cost.steps import CallStep, TransferStep, first_core
from tilewright.cost.sums import (
    Cycles,
    NestCosts,
    UnitSums,
    item_sums,
    uniform_loops,
    unit_sums,
)
from tilewright.cost.timing import by_cores, issue_cycles
from tilewright.cost.window_uses import operation_window
from tilewright.ir.nodes import Program
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MatrixProduct, Repack
from tilewright.machine import Machine
from tilewright.passes.lowering import lowering_of

if TYPE_CHECKING:
    from tilewright.cost import pipeline, window
else:  # heavy: Numba, for which this computer's nests have no need
    pipeline, window = Deferred("tilewright.cost.pipeline"), Deferred("tilewright.cost.window")

_FIRST_PLAYED = 32
"""Candidates of a nest that are played first; then twice as many each time."""


@dataclass(frozen=True, eq=False)
class PricedItem:
    """A call or transfer: whether it happens, and the `numbers` that its cost depends on: integers,
    arrays of tiles, or (kinds of each loop, tiles). Of a call `call` is all else.
    """

    step: Costed
    call: PricedCall[Primitive] | None
    holds: Value
    numbers: Sequence[Value]

    @property
    def alike(self) -> Hashable:
        """Key of the items that are priced together: they differ in their numbers alone, calls of
        code that an integer may decide in their arrays.
        """
        step = self.step
        if isinstance(step, CallStep):
            own = self.call
            assert own is not None
            kind = (own.kind, *step.dims)
            if isinstance(own.primitive, Repack):
                return kind
            return *kind, *(None if isinstance(n, np.ndarray) else n for n in self.numbers)
        return step.kind


def item_cycles(items: Sequence[PricedItem], machine: Machine, prices: Prices) -> list[Cycles]:
    """The cycles of each item where it happens; zero of those that never do."""
    found: list[Cycles] = [(0.0,) * (9 if machine.has_window else 4)] * len(items)
    together: dict[Hashable, list[int]] = {}
    for i, item in enumerate(items):
        if _happens(item.holds):
            together.setdefault(item.alike, []).append(i)
    for places in together.values():
        alike = [items[i] for i in places]
        shapes = [_shape(item.numbers) for item in alike]
        cycles = _priced_once(alike, shapes, machine, prices)
        ends = accumulate(map(prod, shapes), initial=0)
        for i, shape, span in zip(places, shapes, pairwise(ends), strict=True):
            found[i] = tuple(_part(of, span, shape) for of in cycles)
    return found


def _priced_once(
    items: Sequence[PricedItem],
    shapes: Sequence[tuple[int, ...]],
    machine: Machine,
    prices: Prices,
) -> Cycles:
    """The cycles of items that are priced alike, side by side; equal numbers are priced once: most
    factors of a tile have nothing to do with most of its items.
    """
    columns = list(zip(*(item.numbers for item in items), strict=True))
    varying = [c for c, column in enumerate(columns) if _varies(column)]
    numbers: list[Value] = [column[0] for column in columns]
    if not varying:
        return _cycles(items[0], numbers, machine, prices)
    table = np.empty((len(varying), sum(map(prod, shapes))), np.int64)
    for own, c in zip(table, varying, strict=True):
        ends = accumulate(map(prod, shapes), initial=0)
        for value, shape, span in zip(columns[c], shapes, pairwise(ends), strict=True):
            own[slice(*span)].reshape(shape)[...] = value
    if table.shape[1] < FEW_ROWS:
        numbers = [table[varying.index(c)] if c in varying else n for c, n in enumerate(numbers)]
        return _cycles(items[0], numbers, machine, prices)
    code, first = classes_of_table(table)
    for own, c in zip(table, varying, strict=True):
        numbers[c] = own[first]
    cycles = _cycles(items[0], numbers, machine, prices)
    every = {id(c): _of_classes(c, code) for c in cycles}
    return tuple(every[id(c)] for c in cycles)


def _varies(column: Sequence[Value]) -> bool:
    """True unless a number is one and the same integer."""
    first = column[0]
    return any(isinstance(n, np.ndarray) or n != first for n in column)


def _of_classes(cycles: Value, code: Ints) -> Value:
    return cycles[code] if isinstance(cycles, np.ndarray) else cycles


def _happens(holds: Value) -> bool:
    return bool(holds.any() if isinstance(holds, np.ndarray) else holds)


def _shape(numbers: Sequence[Value]) -> tuple[int, ...]:
    """The shape that arrays broadcast to, mostly that of all."""
    shapes = {n.shape for n in numbers if isinstance(n, np.ndarray)}
    longest = max(shapes, key=len, default=())
    if all(shape == longest[len(longest) - len(shape) :] for shape in shapes):
        return longest
    return np.broadcast_shapes(*shapes)


def _part(cycles: Value, span: tuple[int, int], shape: tuple[int, ...]) -> Value:
    return cycles[slice(*span)].reshape(shape) if isinstance(cycles, np.ndarray) else cycles


def _cycles(item: PricedItem, numbers: Sequence[Value], machine: Machine, prices: Prices) -> Cycles:
    """The cycles of an item with these numbers."""
    step = item.step
    if isinstance(step, CallStep):
        assert item.call is not None
        call = replace(item.call, dims=dict(zip(step.dims, numbers, strict=True)))
        if machine.cores > 1 and isinstance(call.primitive, Repack) and not machine.has_window:
            return _repack_cycles(call, machine, prices)
        cycles = call_cycles(machine, call, prices.costs)
        if machine.has_window:
            count, ends = prices.operations(machine, call), prices.ends(machine, call)
            return cycles, count, cycles, *ends, _alone(machine, cycles, count, *ends[:2])
        return cycles, cycles, cycles, cycles
    return _transfer_cycles(step, numbers, machine, prices)


def _repack_cycles(
    call: PricedCall[Primitive], machine: Machine, prices: Prices
) -> tuple[Value, ...]:
    """The cycles of all cores, of the first, of those that have any data, and of others, priced as
    one array.
    """
    shape = np.broadcast_shapes(*map(np.shape, call.dims.values()))
    found = call_cycles(machine, replace(call, dims=by_cores(call.dims)), prices.costs)
    return tuple(np.broadcast_to(found, (4, *shape)))


def _transfer_cycles(
    step: TransferStep, numbers: Sequence[Value], machine: Machine, prices: Prices
) -> Cycles:
    rank = len(step.tensor_shape)
    shape = step.shape(numbers[:rank], numbers[rank:])
    direction, size = step.stmt.direction, prod(numbers[:rank]) * step.element_bytes
    service = prices.service_cycles(machine, direction, shape, size, shared=step.shared)
    if machine.has_window:
        each = service / np.maximum(1, shape.blocks)
        moved = shape.blocks * shape.block_bytes
        alone = _alone(machine, service, shape.blocks, each, each)
        return service, shape.blocks, moved, each, each, *prices.around(shape), 0, alone
    issue = issue_cycles(machine, shape)
    if prices.transfer_kind(direction) == COPY:
        return (service + issue,) * 4
    return service, issue, shape.moving, shape.until


def _alone(machine: Machine, cycles: Value, count: Value, first: Value, last: Value) -> Value:
    """The cycles of an item's operations beside which none of another item is in flight, as slots
    are freed in order and operations of the item fill them.
    """
    rules = machine.issue
    assert rules is not None
    if rules.freed != "in_order":
        return 0.0
    others = np.maximum(count, 2) - 2
    each = (cycles - first - last) / np.maximum(others, 1)
    return each * np.maximum(others - 2 * max(rules.in_flight - 2, 0), 0)


Env = dict[str, Any]


@dataclass(frozen=True, eq=False)
class BoundNest:
    """A nest with values for its parameters, arrays of tiles; `contest` and `doubles` as in
    `Tables`.
    """

    prepared: Prepared
    env: Env
    contest: Ints
    doubles: Flags


def costs_of(nests: Sequence[BoundNest], machine: Machine, prices: Prices) -> list[NestCosts]:
    """The costs of the items of each nest, of which those that are priced alike are one array."""
    bound = [nest.prepared.moments.numbers(nest.env) for nest in nests]
    items = [
        [
            PricedItem(item.step, call, holds, numbers)
            for item, call, (holds, *numbers) in zip(
                nest.prepared.moments.items, nest.prepared.calls, own, strict=True
            )
        ]
        for nest, (own, _) in zip(nests, bound, strict=True)
    ]
    cycles = iter(item_cycles(list(chain.from_iterable(items)), machine, prices))
    return [
        NestCosts([(item.holds, next(cycles)) for item in own], extents)
        for own, (_, extents) in zip(items, bound, strict=True)
    ]


def tables_of(nest: BoundNest, costs: NestCosts) -> Tables:
    """The tables of a nest, in which each item has a row for every kind of iteration."""
    moments, width = nest.prepared.moments, nest.contest.size
    rows = list(accumulate((prod(item.kinds) for item in moments.items), initial=0))
    fields = len(costs.items[0][1]) if costs.items else 4
    table = np.empty((fields, rows[-1], width))
    pairs = zip(moments.items, costs.items, pairwise(rows), strict=True)
    for item, (holds, cycles), (first, end) in pairs:
        happens = np.asarray(holds, np.float64)
        for kind, values in zip(table, cycles, strict=True):
            np.multiply(values, happens, out=kind[first:end].reshape(*item.kinds, width))
    rows = list(accumulate(map(prod, moments.counts), initial=0))
    iterations = np.empty((rows[-1], width))
    for extent, kinds, (first, end) in zip(
        costs.counts, moments.counts, pairwise(rows), strict=True
    ):
        iterations[first:end].reshape(*kinds, width)[...] = extent
    alike = uniform_loops(costs, width)
    service, issue, own = table[:3]
    return Tables(iterations, service, issue, own, alike, nest.contest, nest.doubles, table[3:])


def records_of(
    prepared: Prepared, tables: Tables, prices: Prices, machine: Machine
) -> StateRecords:
    """The nest; what differs from tile to tile is filled in while it is played."""
    outline, loops, buffers = prepared.outline, len(prepared.loops), tables.doubles.shape[1]
    engines = prepared.engines(machine)
    return StateRecords(
        _filled(
            records(Clock, 1),
            loops=loops,
            buffers=buffers,
            places=PLACES * buffers,
            cores=machine.cores,
            columns=machine.mesh.columns,
            latency=max((engine.latency_cycles for engine in engines), default=0),
            issue=max((engine.issue_cycles for engine in engines), default=0),
        ),
        _levels(prepared),
        _filled(
            records(Item, len(prepared.items)),
            kind=[_kind(i.step, prices) for i in prepared.items],
            together=[_together(i.step) for i in prepared.items],
            held=_held(prepared, machine),
            level=[i.level for i in prepared.items],
            buffer=[i.buffer for i in prepared.items],
            base=outline.costs.base,
            varies=outline.costs.varies,
        ),
        records(BufferSlots, buffers),
        records(Crowd, 2),
        records(Served, PLACES * buffers),
        records(KeptAction, 2 * KEPT),
        _strides(outline.counts, loops),
        _strides(outline.costs, loops),
        records(Count, len(tables.iterations)),
        records(Cost, len(tables.service)),
        records(Mark, loops * MARKS),
    )


def _held(prepared: Prepared, machine: Machine) -> list[bool]:
    """Which transfers cores wait for before the next product, where their buffer is single."""
    products = [i.level for i in prepared.items if _together(i.step)]
    if machine.has_window or not products:
        return [False] * len(prepared.items)
    return [
        not isinstance(i.step, CallStep)
        and (i.step.stmt.direction == "get" or (i.after and i.level < max(products)))
        for i in prepared.items
    ]


def _levels(prepared: Prepared) -> npt.NDArray[Any]:
    outline, loops = prepared.outline, len(prepared.loops)
    levels = records(LoopLevel, loops + 1)
    _filled(levels, following=-1)
    for name, spans in (("before", outline.before), ("after", outline.after)):
        levels[name], levels[f"{name}_end"] = spans.T
    front, back, period = np.reshape(prepared.edges, (-1, 3)).T
    _filled(
        levels[:loops],
        kinds=prepared.kinds,
        front=front,
        back=back,
        period=period,
        base=outline.counts.base,
        varies=outline.counts.varies,
        meets=[
            any(_together(i.step) and i.level > d for i in prepared.items) for d in range(loops)
        ],
    )
    return levels


def _strides(rows: Rows, loops: int) -> npt.NDArray[Any]:
    return _filled(records(Stride, rows.strides[:, :loops].size), rows=rows.strides[:, :loops])


def _filled(found: npt.NDArray[Any], **values: Any) -> npt.NDArray[Any]:
    """The records with values for some of their fields; of no values one record is left at zero."""
    for name, value in values.items():
        flat = np.ravel(value)
        if flat.size:
            found[name] = flat
    return found


def _width(env: Env) -> int:
    sizes = (v.size for v in env.values() if isinstance(v, np.ndarray) and v.ndim == 1)
    return max(sizes, default=1)


def _together(step: CallStep | TransferStep) -> bool:
    return isinstance(step, CallStep) and isinstance(step.stmt.primitive, MatrixProduct)


def _kind(step: CallStep | TransferStep, prices: Prices) -> int:
    if isinstance(step, CallStep):
        return CALL
    return prices.transfer_kind(step.stmt.direction)


@dataclass(frozen=True)
class Estimate:
    """Cycles of one core group: elapsed, of the cores' primitives, of the DMA engine; scratchpad
    bytes per core.

    Each is an array (copies, tiles): the front axis varies the numbers of buffer copies, the other
    everything else. A single candidate has one element.
    """

    cycles: Floats
    compute_cycles: Floats
    dma_cycles: Floats
    scratchpad_bytes: Floats


@dataclass(frozen=True, eq=False)
class PricedNest:
    """A nest to be priced with its parameters bound to `values`.

    Copy counts may be arrays of shape (copies, 1), all other values integers or arrays of shape
    (tiles,). Candidates that are not `wanted` (copies, tiles; None: all) are left at infinity. Each
    tile takes part in the `contest` of that number, None: all in one. `best` (contests, keep) has
    the fewest cycles of each contest so far, of all nests that share it; those that are none of
    them by their bound have infinite cycles, too, but those of calls and transfers. Without it all
    matter.
    """

    prepared: Prepared
    values: Mapping[str, Value]
    wanted: Flags | None = None
    contest: Ints | None = None
    best: Floats | None = None


def estimate(
    program: Program | Prepared,
    machine: Machine,
    values: Mapping[str, Value],
    wanted: Flags | None = None,
    *,
    contest: Ints | None = None,
    best: Floats | None = None,
) -> Estimate:
    """Price `program` as a `PricedNest`; one that is priced often is taken apart once."""
    if isinstance(program, Program):
        places = prices_of(machine).told_by_place
        program = take_apart(program, chains=lowering_of(machine).chains, places=places)
    return estimates([PricedNest(program, values, wanted, contest, best)], machine)[0]


def estimates(cases: Sequence[PricedNest], machine: Machine) -> list[Estimate]:
    """Price several nests together; with a window of operations in flight in the order of their
    least cycles: what is far from the best need not be played then.
    """
    nests, prices = [_bound(case, machine) for case in cases], prices_of(machine)
    every = [*zip(nests, costs_of(nests, machine, prices), cases, strict=True)]
    if not machine.has_window:
        return [_played(*own, machine) for own in every]
    sums = [unit_sums(n.prepared, own, prices, n.contest.size) for n, own, _ in every]
    least = [np.min(window.least_in_window(own), initial=np.inf) for own in sums]
    order = sorted(range(len(sums)), key=least.__getitem__)
    found = {i: _played(*every[i], machine, sums[i]) for i in order}
    return [found[i] for i in range(len(sums))]


def _bound(case: PricedNest, machine: Machine) -> BoundNest:
    env: Env = {**case.values, **first_core(machine)}
    division = case.prepared.division
    if division is not None:
        env |= division.values(env, machine.thread_count)
    contest = np.zeros(_width(env), np.int64) if case.contest is None else case.contest
    return BoundNest(case.prepared, env, contest, _doubles(case.prepared.program, env))


def _played(
    nest: BoundNest,
    costs: NestCosts,
    case: PricedNest,
    machine: Machine,
    known: UnitSums | None = None,
) -> Estimate:
    """The estimate of a nest by its costs; its sums are `known` for a window."""
    prepared, prices, width = nest.prepared, prices_of(machine), nest.contest.size
    shape = (len(nest.doubles), width)
    wanted = np.ones(shape, np.bool_) if case.wanted is None else case.wanted
    best = np.empty((0, 0)) if case.best is None or prices.waits else case.best
    if known is not None:
        cycles = _in_window(nest, costs, wanted, machine, best, window.least_in_window(known))
        sums = np.stack([known.cycles.calls, known.cycles.transfers])
    elif all(_kind(i.step, prices) <= COPY for i in prepared.items):
        own = item_sums(prepared, costs, uniform_loops(costs, width))
        left_out = own.calls * (1 - prices.kept_share(prepared, machine, nest.env))
        every, calls = own.every - left_out, own.calls - left_out
        cycles, sums = np.where(wanted, every, np.inf), np.stack([calls, 0 * calls])
    else:
        cycles, sums = _overlapped(prepared, tables_of(nest, costs), wanted, machine, best)
    compute, busy = (np.where(wanted, own, np.inf) for own in sums)
    bytes_used = scratchpad_bytes(prepared.program, nest.env)
    cycles = np.asarray(prices.elapsed_cycles(prepared, machine, nest.env, bytes_used, cycles))
    return Estimate(cycles, compute, busy, np.broadcast_to(bytes_used, shape))


def _overlapped(
    prepared: Prepared, tables: Tables, wanted: Flags, machine: Machine, best: Floats
) -> tuple[Floats, Floats]:
    """The cycles with calls and an engine's transfers side by side; those of all calls and of all
    transfers of each tile.
    """
    state = first_of(records_of(prepared, tables, prices_of(machine), machine))
    cycles, least = np.full(wanted.shape, np.inf), np.empty(wanted.shape)
    sums = np.empty((2, wanted.shape[1]))
    pipeline.least_cycles(state, tables, sums, least)
    order = np.flatnonzero(wanted)
    order = order[np.argsort(least.ravel()[order], kind="stable")]
    pipeline.play(state, tables, order, least, best, cycles)
    return cycles, sums


def _in_window(
    nest: BoundNest, costs: NestCosts, wanted: Flags, machine: Machine, best: Floats, least: Floats
) -> Floats:
    """The cycles with a window of operations in flight: candidates are played in the order of
    their least cycles, some at a time, until none is left that may be among the best.
    """
    prepared, prices, width = nest.prepared, prices_of(machine), wanted.shape[1]
    limit = best[:, -1] if best.size else np.full(1 + np.max(nest.contest, initial=0), np.inf)
    cycles, order = np.full(wanted.shape, np.inf), np.flatnonzero(wanted)
    order = order[np.argsort(least[order % width], kind="stable")]
    own: tuple[window.OperationWindow, StateRecords] | None = None
    count = _FIRST_PLAYED
    while (order := order[least[order % width] <= limit[nest.contest[order % width]]]).size:
        now, order = order[:count], order[count:]
        tiles, places = np.unique(now % width, return_inverse=True)
        tables = tables_of(replace(nest, contest=nest.contest[tiles]), costs.of(tiles))
        if own is None:
            empty = operation_window(prepared, nest.env, machine, prices)
            own = empty, records_of(prepared, tables, prices, machine)
        found = np.full((len(wanted), len(tiles)), np.inf)
        places = now // width * len(tiles) + places
        bound = np.broadcast_to(least[tiles], found.shape)
        window.play_window(first_of(own[1]), own[0], tables, places, bound, best, found)
        cycles.ravel()[now] = found.ravel()[places]
        count *= 2
    return cycles


def _doubles(program: Program, env: Env) -> Flags:
    """(copies, buffers): which buffers are double in each combination of copies."""
    columns = [np.asarray(evaluate(b.copies, env)).reshape(-1) == 2 for b in program.buffers]
    if not columns:
        return np.zeros((1, 0), np.bool_)
    return np.stack(np.broadcast_arrays(*columns), axis=1)
