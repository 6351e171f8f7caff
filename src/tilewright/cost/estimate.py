"""Price a staged program for one candidate, or for every candidate of a space at once.

In: a staged program (after boundary handling), a machine, and values for the program's parameters:
integers, or arrays with one element per candidate. Out: an `Estimate` of the same form. The walk
prices each transfer and call once per kind of iteration it depends on (first, middle, last: only a
last tile is smaller, only a first step initialises), as arrays over the tiles; `cost.pipeline`
composes them loop by loop (swATOP 4.6, with the loop's real pipeline in place of its "maximum of
two sums"). Nests of one seed hold the same few kinds of calls and transfers on small arrays of
tiles. Items of one kind are priced as one array; otherwise NumPy's call overhead would dominate.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.common.classes import FEW_ROWS, classes_of_table
from tilewright.common.deferred import Deferred
from tilewright.common.expr import Value
from tilewright.cost.buffers import doubled_buffers
from tilewright.cost.calls import PricedCall, call_cycles
from tilewright.cost.chain import Prepared, take_apart
from tilewright.cost.moments import BoundLoops, Costed
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
    each_once,
    item_sums,
    sums_of_items,
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

_FIRST_PLAYED = 128
"""Candidates of a nest in the first batch that is played; each later batch is twice as large."""
_ROUNDING = 1.0 - 1e-9
"""Factor on a lower bound: sums in another order round differently."""
_EXTRAPOLATED = 0.99
"""Factor on a lower bound: iterations may be extrapolated before they reach a steady state."""


@dataclass(frozen=True, eq=False)
class PricedItem:
    """A call or transfer to price: whether it happens, and the `numbers` that its cost depends on,
    each an integer or an array of shape (tiles,) or (kinds of each loop, tiles). `call` is
    everything else that a call's cost depends on.
    """

    step: Costed
    call: PricedCall[Primitive] | None
    holds: Value
    numbers: Sequence[Value]

    @property
    def alike(self) -> Hashable:
        """Key of the items that are priced together, which differ only in their numbers. Calls may
        differ only in arrays, since integers may decide their code; re-packings in all numbers.
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
    """Cycles of each item where it happens; zeros for an item that never does."""
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
            found[i] = each_once(partial(_part, span=span, shape=shape), cycles)
    return found


def _priced_once(
    items: Sequence[PricedItem],
    shapes: Sequence[tuple[int, ...]],
    machine: Machine,
    prices: Prices,
) -> Cycles:
    """Cycles of items that are priced alike, concatenated. Equal numbers are priced once: most of
    a tile's factors do not affect most items.
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
    return each_once(partial(_of_classes, code=code), cycles)


def _varies(column: Sequence[Value]) -> bool:
    """True unless all items have the same integer in a column."""
    first = column[0]
    return any(isinstance(n, np.ndarray) or n != first for n in column)


def _of_classes(cycles: Value, code: Ints) -> Value:
    return cycles[code] if isinstance(cycles, np.ndarray) else cycles


def _happens(holds: Value) -> bool:
    return bool(holds.any() if isinstance(holds, np.ndarray) else holds)


def _shape(numbers: Sequence[Value]) -> tuple[int, ...]:
    """The shape that all arrays broadcast to; a shortcut where all are tails of the longest."""
    shapes = {n.shape for n in numbers if isinstance(n, np.ndarray)}
    longest = max(shapes, key=len, default=())
    if all(shape == longest[len(longest) - len(shape) :] for shape in shapes):
        return longest
    return np.broadcast_shapes(*shapes)


def _part(cycles: Value, span: tuple[int, int], shape: tuple[int, ...]) -> Value:
    return cycles[slice(*span)].reshape(shape) if isinstance(cycles, np.ndarray) else cycles


def _cycles(item: PricedItem, numbers: Sequence[Value], machine: Machine, prices: Prices) -> Cycles:
    """Cycles of an item with `numbers` in place of its own."""
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
    """Cycles of all cores, of the first core, of the cores that have data, and of the others, in
    the order of `by_cores`; priced as one array.
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
    """Cycles in which only this item's operations are in flight: slots are freed in order, so in
    the middle of a long item its own operations fill the window.
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
    """A nest with values for its parameters, integers or arrays of tiles; `contest` and `doubles`
    as in `Tables`.
    """

    prepared: Prepared
    env: Env
    contest: Ints
    doubles: Flags


def costs_of(nests: Sequence[BoundNest], machine: Machine, prices: Prices) -> list[NestCosts]:
    """The costs of each nest's items; items of all nests that are priced alike are one array.
    Nests with the same values and loops, in any order, share items that have the same numbers.
    """
    alike: dict[Hashable, list[int]] = {}
    for i, nest in enumerate(nests):
        alike.setdefault((id(nest.env), nest.prepared.moments.alike), []).append(i)
    items: list[PricedItem] = []
    bound: dict[int, tuple[list[int], list[Value], list[int]]] = {}
    for places in alike.values():
        loops = nests[places[0]].prepared.moments.bind(nests[places[0]].env)
        marks: dict[Hashable, int] = {}
        for i in places:
            bound[i] = _numbered(nests[i].prepared, loops, items, marks)
    known = item_cycles(items, machine, prices)
    return [
        NestCosts([(items[m].holds, known[m]) for m in own], extents, own).ordered(axes)
        for own, extents, axes in map(bound.__getitem__, range(len(nests)))
    ]


def _numbered(
    prepared: Prepared, loops: BoundLoops, items: list[PricedItem], marks: dict[Hashable, int]
) -> tuple[list[int], list[Value], list[int]]:
    """Indices of a nest's items in `items`, the extents of its loops, and the axes along which the
    loops' kinds lie. Items without a mark in `marks` are appended to `items`.
    """
    moments, own = prepared.moments, list[int]()
    found, extents = moments.numbers(loops)
    for item, call, numbers in zip(moments.items, prepared.calls, found, strict=True):
        priced = PricedItem(item.step, call, numbers[0], numbers[1:])
        own.append(marks.setdefault((priced.alike, *map(id, numbers)), len(items)))
        if own[-1] == len(items):
            items.append(priced)
    return own, extents, [loops.order.index(loop.var) for loop in moments.loops]


def tables_of(nest: BoundNest, costs: NestCosts) -> Tables:
    """The tables of a nest, with a row for every item and kind of iteration."""
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
    """The records of a nest; fields that differ from tile to tile are set during playback."""
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
    """Mask of the transfers that cores wait for before the next product if the buffer is single."""
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
    """Set fields of the records; an empty value leaves its field at zero."""
    for name, value in values.items():
        flat = np.ravel(value)
        if flat.size:
            found[name] = flat
    return found


def _together(step: CallStep | TransferStep) -> bool:
    return isinstance(step, CallStep) and isinstance(step.stmt.primitive, MatrixProduct)


def _kind(step: CallStep | TransferStep, prices: Prices) -> int:
    if isinstance(step, CallStep):
        return CALL
    return prices.transfer_kind(step.stmt.direction)


@dataclass(frozen=True)
class Estimate:
    """Cycles of one core group: elapsed, of the cores' primitives, of the DMA engine.

    Each is an array (copies, tiles): the first axis varies the numbers of buffer copies, the second
    everything else. A single candidate has one element.
    """

    cycles: Floats
    compute_cycles: Floats
    dma_cycles: Floats


@dataclass(frozen=True, eq=False)
class PricedNest:
    """A nest to be priced with its parameters bound to `values`.

    Copy counts may be arrays of shape (copies, 1), all other values integers or arrays of shape
    (tiles,). Candidates outside `wanted` (copies, tiles; None: all) keep infinite cycles. `contest`
    (tiles,) numbers the contest that each tile competes in, None: all in one. `best` (contests,
    keep) holds the fewest cycles of each contest so far, over all nests that share it; a candidate
    whose lower bound exceeds them keeps infinite `cycles`. Without it every candidate is played.
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
    """Price `program` as a `PricedNest`; pass a `Prepared` nest to price it repeatedly."""
    if isinstance(program, Program):
        places = prices_of(machine).told_by_place
        program = take_apart(program, chains=lowering_of(machine).chains, places=places)
    return estimates([PricedNest(program, values, wanted, contest, best)], machine)[0]


def estimates(cases: Sequence[PricedNest], machine: Machine) -> list[Estimate]:
    """Price several nests together. They are played in the order of their lower bounds, so that
    candidates far from the best need not be played.
    """
    prices = prices_of(machine)
    if not all(_in_order(case.prepared, prices) for case in cases):
        _playback(machine)  # Numba, which is needed later: equal rows are found faster with it
    envs = {id(case.values): {**case.values, **first_core(machine)} for case in cases}
    nests = [_bound(case, envs[id(case.values)], machine) for case in cases]
    every = [*zip(nests, costs_of(nests, machine, prices), strict=True)]
    known: dict[Hashable, Floats] = {}
    sums = [_sums(*own, machine, known) for own in every]
    order = sorted(range(len(sums)), key=lambda i: np.min(sums[i].least, initial=np.inf))
    found = {i: _played(*every[i], sums[i], cases[i], machine) for i in order}
    return [found[i] for i in range(len(sums))]


def _bound(case: PricedNest, env: Env, machine: Machine) -> BoundNest:
    division = case.prepared.division
    if division is not None:
        env = env | division.values(env, machine.thread_count)
    widths = (v.size for v in env.values() if isinstance(v, np.ndarray) and v.ndim == 1)
    contest = np.zeros(max(widths, default=1), np.int64) if case.contest is None else case.contest
    return BoundNest(case.prepared, env, contest, doubled_buffers(case.prepared.program, env))


class _Sums(NamedTuple):
    """Cycles of all calls and of all transfers of each tile (tiles,), and a lower bound `least` of
    each candidate (copies, tiles), which is `exact` where nothing overlaps.
    """

    calls: Floats
    transfers: Floats
    least: Floats
    exact: bool = False


def _sums(
    nest: BoundNest, costs: NestCosts, machine: Machine, known: dict[Hashable, Floats]
) -> _Sums:
    prepared, prices, width = nest.prepared, prices_of(machine), nest.contest.size
    shape = (len(nest.doubles), width)
    if machine.has_window:
        units = unit_sums(prepared, costs, prices, width)
        least = np.broadcast_to(window.least_in_window(units), shape)
        return _Sums(units.cycles.calls, units.cycles.transfers, least)
    if _in_order(prepared, prices):
        own = item_sums(prepared, costs, uniform_loops(costs, width))
        left_out = own.calls * (1 - prices.kept_share(prepared, machine, nest.env))
        every, calls = own.every - left_out, own.calls - left_out
        return _Sums(calls, 0 * calls, np.broadcast_to(every, shape), exact=True)
    return _engine_sums(nest, sums_of_items(prepared, costs, width, known), machine)


def _in_order(prepared: Prepared, prices: Prices) -> bool:
    """True if nothing overlaps because the core itself makes all transfers."""
    return all(_kind(i.step, prices) <= COPY for i in prepared.items)


def _playback(machine: Machine) -> Callable[..., None]:
    """The compiled function that plays a machine's candidates."""
    return window.play_window if machine.has_window else pipeline.play


def _engine_sums(nest: BoundNest, sums: Sequence[Floats], machine: Machine) -> _Sums:
    """Sums and lower bounds where an engine transfers while the cores compute. No overlap is
    possible between calls that exchange data and transfers that all cores wait for, to and from
    single buffers; their cycles add up to a bound.
    """
    prepared, prices = nest.prepared, prices_of(machine)
    calls, transfers, together = np.zeros((3, nest.contest.size))
    held = np.zeros((nest.doubles.shape[1], nest.contest.size))
    for item, waits, cycles in zip(prepared.items, _held(prepared, machine), sums, strict=True):
        kind = _kind(item.step, prices)
        if kind == CALL:
            calls += cycles
            together += cycles * _together(item.step)
        elif kind > COPY:
            transfers += cycles
            held[item.buffer] += cycles * waits
    alone = (together + ~nest.doubles @ held) * _EXTRAPOLATED
    return _Sums(calls, transfers, np.maximum(np.maximum(calls, transfers), alone) * _ROUNDING)


def _played(
    nest: BoundNest, costs: NestCosts, sums: _Sums, case: PricedNest, machine: Machine
) -> Estimate:
    """The estimate of a nest, from its costs and their sums."""
    prepared, prices, shape = nest.prepared, prices_of(machine), sums.least.shape
    wanted = np.ones(shape, np.bool_) if case.wanted is None else case.wanted
    best = np.empty((0, 0)) if case.best is None or prices.waits else case.best
    if sums.exact:
        cycles = np.where(wanted, sums.least, np.inf)
    else:
        cycles = _by_least(nest, costs, wanted, machine, best, sums.least)
    compute, busy = (np.where(wanted, own, np.inf) for own in sums[:2])
    elapsed = np.asarray(prices.elapsed_cycles(prepared, machine, nest.env, cycles))
    return Estimate(elapsed, compute, busy)


def _by_least(
    nest: BoundNest, costs: NestCosts, wanted: Flags, machine: Machine, best: Floats, least: Floats
) -> Floats:
    """Cycles of candidates, played in batches in the order of their `least`, until no candidate is
    left that could be among the best.
    """
    prepared, prices, width = nest.prepared, prices_of(machine), wanted.shape[1]
    limit = best[:, -1] if best.size else np.full(1 + np.max(nest.contest, initial=0), np.inf)
    cycles, order = np.full(wanted.shape, np.inf), np.flatnonzero(wanted)
    flat = least.ravel()
    order = order[flat[order] <= limit[nest.contest[order % width]]]
    order = order[np.argsort(flat[order], kind="stable")]
    state: StateRecords | None = None
    count = _FIRST_PLAYED
    while order.size:
        now, order = order[:count], order[count:]
        tiles, places = np.unique(now % width, return_inverse=True)
        tables = tables_of(replace(nest, contest=nest.contest[tiles]), costs.of(tiles))
        if state is None:
            state = records_of(prepared, tables, prices, machine)
            play = partial(_playback(machine), first_of(state))
            if machine.has_window:
                play = partial(play, operation_window(prepared, nest.env, machine, prices))
        found = np.full((len(wanted), len(tiles)), np.inf)
        places = now // width * len(tiles) + places
        play(tables, places, least.take(tiles, axis=1), best, found)
        cycles.ravel()[now] = found.ravel()[places]
        order = order[flat[order] <= limit[nest.contest[order % width]]]
        count *= 2
    return cycles
