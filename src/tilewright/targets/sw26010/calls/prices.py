"""Prices of elementwise calls: the fitted form of the call's routine (`timing`) on its loops, or
the C loop of `compiled_loops` without a routine.

In: the loops of a call and the gathered axes of a reduction (`cost.nests`), for many candidates at
once. Out: cycles. Loops are joined as in the emitted call; this determines how operands lie along a
row, and hence the routine and its mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as combinations
from math import prod
from typing import Any, TypeAlias

import numpy as np

from tilewright.common.classes import FEW_ROWS, classes_of_table
from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, Costs, Dims, PricedCall
from tilewright.cost.timing import RepackedAxis, repacked_axes
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import (
    Map,
    MultiplyAccumulate,
    Reduce,
    ScaleAdd,
    Windows,
    WinogradTransform,
)
from tilewright.machine import Machine
from tilewright.targets.sw26010.calls.nest_rows import (
    OUTER_LOOPS,
    NestRows,
    has_loops,
    results_of,
    rows_of,
)
from tilewright.targets.sw26010.elementwise.code import MODES
from tilewright.targets.sw26010.elementwise.lie import ELEMENTS, LANES, VECTORS, Lie
from tilewright.targets.sw26010.elementwise.loops import LEVELS
from tilewright.targets.sw26010.elementwise.maps import (
    MapRoutine,
    map_routine,
    written_as_maps,
)
from tilewright.targets.sw26010.elementwise.reduce import (
    MOST_TAPS,
    PARTS,
    ReduceRoutine,
    reduce_routine,
)
from tilewright.targets.sw26010.elementwise.routines import Routine, routine_of
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES
from tilewright.targets.sw26010.timing.derived import Timing
from tilewright.targets.sw26010.timing.maps import MAPS, map_terms
from tilewright.targets.sw26010.timing.nests import NESTS, nest_terms, rows_terms
from tilewright.targets.sw26010.timing.reductions import REDUCTIONS, Extents, reduce_terms


def emitted_costs(loops: Costs) -> Costs:
    """The costs of primitives: the cycles of their routines if there are any, otherwise the cost in
    `loops`. A call takes whole cycles, as in a simulation. Without an instruction table a machine
    has no cycles for routines.
    """
    return {kind: _emitted(cost) for kind, cost in loops.items()}


def _emitted(otherwise: CallCost) -> CallCost:
    def cost(machine: Machine, call: PricedCall[Primitive]) -> Value:
        table = machine.core.instruction_table
        if table is None:
            return otherwise(machine, call)
        plain = routine_of(call.primitive, call.dtype)
        if plain is not None and plain.work is None:
            return repacked_cycles(call.dims, partial(priced_rows, NESTS.timing(table, plain)))
        nests = [*nests_of(call)]
        if not nests:
            return otherwise(machine, call)
        cycles: Value = 0
        for calls, routine, rows in nests:
            cycles = cycles + calls * routine_cycles(table, routine, rows)
        return cycles

    return cost


def nests_of(call: PricedCall[Primitive]) -> Iterator[tuple[Value, MapRoutine | Routine, NestRows]]:
    """The calls of routines, as (number, routine, rows). A primitive that is written as maps has
    one for each further operand or each factor; a transform has one, other primitives none.
    """
    dims, operands = call.dims, int(np.max(call.dims.get("operands", 1)))
    transform = routine_of(call.primitive, call.dtype)
    routines: Sequence[MapRoutine | Routine] = [transform] if transform else []
    routines = written_as_maps(call.primitive, operands, call.dtype) or routines
    if routines and not has_loops(dims):
        yield _calls(call), routines[-1], _rows_in_one_loop(call)
        return
    for number, routine in enumerate(routines):
        match call.primitive:
            case ScaleAdd():
                yield 1, routine, rows_of(dims, (0, min(1 + number, operands - 1)))
            case MultiplyAccumulate():
                rows, share = rows_of(dims, (0, 1), beside=2), _aligned_factors(dims)
                yield dims["factors"] * share, routine, rows
                if np.any(np.less(share, 1)):
                    by_elements = replace(rows, by_vectors=np.zeros_like(rows.by_vectors))
                    yield dims["factors"] * (1 - share), routine, by_elements
            case _:
                yield 1, routine, rows_of(dims, range(operands))


def _aligned_factors(dims: Dims) -> Value:
    """Share of the turns of the loops around in which the window starts with a vector; in the
    others the routine works by elements.
    """
    turns = np.maximum(dims.get("x_turns", 1), 1)
    return -(-turns // dims.get("x_starts", 1)) / turns


def _rows_in_one_loop(call: PricedCall[Primitive]) -> NestRows:
    """The rows assumed if operands divide an axis differently: as long as the run that is
    contiguous in all operands, by vectors if that is whole vectors, in one loop.
    """
    common = np.maximum(call.dims["common_run"], 1)
    contiguous = np.greater(common, 1) & np.equal(common % VECTOR_LANES, 0)
    row = _row(call, common)
    return NestRows(row, -(-_elements(call) // row), (0,) * OUTER_LOOPS, contiguous)


def _row(call: PricedCall[Primitive], common: Value) -> Value:
    """Elements of the innermost loop. Neighbouring windows are contiguous like neighbouring pixels,
    unless they are some pixels apart.
    """
    if not isinstance(call.primitive, Windows):
        return np.where(np.greater(common, 1), common, np.maximum(call.dims["inner"], 1))
    joined = call.primitive.stride == 1 or np.equal(common, 1)
    return common * np.where(joined, call.dims["t"], 1)


def _elements(call: PricedCall[Primitive]) -> Value:
    """Elements of the result in one call of the routine; for a transform its tiles, over every axis
    that it does not transform.
    """
    if isinstance(call.primitive, MultiplyAccumulate):
        return call.dims["elements"] // call.dims["factors"]
    if not isinstance(call.primitive, WinogradTransform):
        return call.dims["elements"]
    tiles: Value = 1
    for name, extent in call.dims.items():
        if len(name) == 1 and name not in "xrc":
            tiles = tiles * extent
    return tiles


def _calls(call: PricedCall[Primitive]) -> Value:
    """Calls of the routine: one for each further operand, or for each factor."""
    match call.primitive:
        case ScaleAdd():
            return np.maximum(call.dims["operands"] - 1, 1)
        case MultiplyAccumulate():
            return call.dims["factors"]
        case _:
            return 1


RowsCycles: TypeAlias = Callable[[bool, Value, Value, Value], Value]
"""Cycles of rows that change between two lengths in elements: whether they grow, how many there
are, the larger and the smaller length.
"""


def repacked_cycles(dims: Dims, rows_cycles: RowsCycles) -> Value:
    """Cycles of the slowest core, for which all cores wait, rounded up; its calls take
    `rows_cycles`.
    """
    return np.ceil(cycles_of_cores(dims, rows_cycles).max(axis=0))


def cycles_of_cores(dims: Dims, rows_cycles: RowsCycles) -> Value:
    """Cycles of cores along a first axis, with `rows_cycles` for each call. Along each axis of a
    tile a core has the largest or the smallest cut tile, or a whole one if there is any.
    """
    axes = repacked_axes(dims)
    cores = list(combinations(*(_tiles(axis, dims) for axis in axes)))
    shape = np.broadcast_shapes(*map(np.shape, dims.values()))
    kept = {axis: np.empty((len(cores), *shape), np.int64) for axis in axes}
    for i, axis in enumerate(axes):
        for row, core in enumerate(cores):
            kept[axis][row] = _indices_of_core(axis, core[i], dims)
    cycles = np.broadcast_to(_repacked_cores(rows_cycles, dims, kept), (len(cores), *shape))
    for i, axis in enumerate(axes):
        whole = np.reshape([core[i] == axis.whole for core in cores], (-1, *(1 for _ in shape)))
        cycles = np.where(whole & np.less_equal(dims[axis.some_whole], 1), 0, cycles)
    return cycles


def _tiles(axis: RepackedAxis, dims: Dims) -> tuple[str, ...]:
    """Possible tile sizes of a core; without the smallest if candidates have no smaller ones."""
    if np.array_equal(dims[axis.most], dims[axis.least]):
        return axis.most, axis.whole
    return axis.most, axis.least, axis.whole


def _indices_of_core(axis: RepackedAxis, tile: str, dims: Dims) -> Value:
    """A core's number of indices along the axis."""
    return dims[tile] if tile == axis.whole else dims[tile] - 1


def _repacked_cores(
    rows_cycles: RowsCycles, dims: Dims, kept: Mapping[RepackedAxis, Value]
) -> Value:
    """Cycles of cores with `kept` indices of each axis: a call for each partial axis, first for
    those that shrink, inner ones before outer ones.
    """
    shape = [dims[name] for name in dims if name.startswith("axis_")]
    for axis, less in kept.items():
        if axis.grows:
            shape[axis.axis] = less
    cycles: Value = 0
    for axis in sorted(kept, key=lambda axis: (axis.grows, -axis.axis)):
        d, whole, less = axis.axis, dims[axis.whole], kept[axis]
        rows, inner = prod(shape[:d]), prod(shape[d + 1 :])
        shape[d] = whole if axis.grows else less
        each = rows_cycles(axis.grows, rows, whole * inner, less * inner)
        cycles = cycles + np.less(less, whole) * each
    return cycles


def priced_rows(timing: Timing, grows: bool, *lengths: Value) -> Value:
    """Rows that change between two lengths in elements; if many, equal ones are priced once."""
    shape = np.broadcast_shapes(*map(np.shape, lengths))
    if prod(shape) < FEW_ROWS:
        return _changed_rows(timing, grows, *lengths)
    table = np.empty((len(lengths), *shape), np.int64)
    for column, values in zip(table, lengths, strict=True):
        column[...] = values
    table = table.reshape(len(lengths), -1)
    code, first = classes_of_table(table)
    return _changed_rows(timing, grows, *table[:, first])[code].reshape(shape)


def _changed_rows(timing: Timing, grows: bool, rows: Value, larger: Value, smaller: Value) -> Value:
    by_vectors = np.equal((larger | smaller) & (VECTOR_LANES - 1), 0)
    larger, smaller = (np.where(by_vectors, x // VECTOR_LANES, x) for x in (larger, smaller))
    terms = rows_terms(grows, rows, larger, smaller)
    return _by_mode(by_vectors, True, lambda mode: timing[mode].cycles(terms))


def _by_mode(by_vectors: Value, among: Value, cycles_in: Callable[[str], Value]) -> Value:
    """Cycles by vectors or elements, `among` some candidates; only modes that occur are priced."""
    cycles: Value = 0.0
    for mode, taken in zip(MODES, (by_vectors, np.logical_not(by_vectors)), strict=True):
        if np.any(np.logical_and(among, taken)):
            cycles = np.where(taken, cycles_in(mode), cycles)
    return cycles


def emitted_map(compiled: CallCost) -> CallCost:
    """The cost of a map by its routine, or by a compiled loop. Candidates may differ in the
    operands that are constant along a row, hence in their routine, and in whether a routine has
    enough loops.
    """

    def cost(machine: Machine, call: PricedCall[Map]) -> Value:
        table = machine.core.instruction_table
        if table is None or call.primitive.dtype is not None or not has_loops(call.dims):
            return compiled(machine, call)
        rows = map_rows(call)

        def cycles(number: int, among: Value) -> Value | None:
            routine = routine_of_rows(call, number)
            return None if routine is None else routine_cycles(table, routine, rows, among)

        priced = has_as_many_loops(rows)
        return _of_each(rows.still, priced, cycles, partial(compiled, machine, call))

    return cost


def _of_each(
    numbers: Value,
    priced: Value,
    cycles_of: Callable[[int, Value], Value | None],
    compiled: Callable[[], Value],
) -> Value:
    """The cycles of candidates by the number of their routine; those of a compiled loop for numbers
    without one, and for candidates that are not `priced`.
    """
    cycles: Value = 0
    for number in np.unique(numbers):
        among = np.equal(numbers, number)
        each = cycles_of(int(number), among)
        cycles = np.where(among, compiled() if each is None else each, cycles)
    return cycles if np.all(priced) else np.where(priced, cycles, compiled())


def has_as_many_loops(rows: NestRows) -> Value:
    """True where a routine has enough loops for these rows."""
    return np.less_equal(rows.loops, LEVELS)


def map_rows(call: PricedCall[Map]) -> NestRows:
    """The rows of a map's single nest."""
    return rows_of(call.dims, range(int(np.max(call.dims["operands"]))), may_stay=True)


def routine_of_rows(call: PricedCall[Map], still: int) -> MapRoutine | None:
    """The routine of a map; bit i of `still` is set if operand i is constant along rows."""
    sources = int(np.max(call.dims["operands"])) - 1
    stay = tuple(bool(still >> i & 1) for i in range(sources))
    return map_routine(call.primitive.expression, stay, call.dtype)


def routine_cycles(
    table: str, routine: MapRoutine | Routine, rows: NestRows, among: Value = True
) -> Value:
    """Whole cycles of a nest, `among` some candidates."""

    def cycles(mode: str) -> Value:
        if isinstance(routine, MapRoutine):
            return MAPS.fitted(table, routine, mode).cycles(map_terms(routine, mode, rows))
        return NESTS.fitted(table, routine, mode).cycles(nest_terms(routine, mode, rows))

    return np.ceil(_by_mode(rows.by_vectors, among, cycles))


_STEPS = (0, 1, 2)
_LOOPS = 3


@dataclass(frozen=True)
class PricedLoops:
    """Layout of the operands and extents of the loops, for each candidate. `shares` are the shares
    of calls whose results, and whose elements, start with a vector; `priced` is true where a
    routine has enough loops.
    """

    code: Value
    rows: NestRows
    extents: Extents
    x_by_vectors: Value
    shares: tuple[Value, Value]
    priced: Value


def emitted_reduce(compiled: CallCost) -> CallCost:
    """The cost of a reduction by its routine, or by a compiled loop."""

    def cost(machine: Machine, call: PricedCall[Reduce]) -> Value:
        table = machine.core.instruction_table
        if table is None or not has_loops(call.dims):
            return compiled(machine, call)
        nest = priced_loops(call.dims)

        def cycles(number: int, among: Value) -> Value | None:
            routine = routine_of_code(call, number)
            return None if routine is None else _cycles(table, routine, nest, among)

        return _of_each(nest.code, nest.priced, cycles, partial(compiled, machine, call))

    return cost


def routine_of_code(call: PricedCall[Any], code: int) -> ReduceRoutine | None:
    """The routine of a reduction for the operand layout encoded by `code`, see `lie_of`."""
    primitive = call.primitive
    return reduce_routine(primitive.function, primitive.expression, lie_of(code), call.dtype)


def lie_of(code: int) -> Lie:
    """The layout of the operands that a number encodes."""
    step, taps, loops, along = code % 3, code // 3 % 3 + 1, code // 9 % 2, code // 18
    return Lie(step, taps, bool(loops), bool(along))


def mode_shares(routine: ReduceRoutine, nest: PricedLoops) -> Mapping[str, Value]:
    """Share of the calls in each mode."""
    by_vectors = nest.x_by_vectors * nest.shares[1]
    if routine.lie.along:
        return {VECTORS: by_vectors, ELEMENTS: 1 - by_vectors}
    if routine.lie.step == 0:
        return {ELEMENTS: 1}
    whole = nest.rows.by_vectors * nest.shares[0]
    if VECTORS not in routine.lie.modes:
        return {LANES: whole, ELEMENTS: 1 - whole}
    lanes = whole * (1 - by_vectors)
    return {VECTORS: whole * by_vectors, LANES: lanes, ELEMENTS: 1 - whole}


def _cycles(table: str, routine: ReduceRoutine, nest: PricedLoops, among: Value) -> Value:
    """Whole cycles of a call `among` some candidates."""
    cycles: Value = 0
    for mode, share in mode_shares(routine, nest).items():
        if np.any(share * among):
            terms = reduce_terms(routine, mode, nest.extents)
            cycles = cycles + share * REDUCTIONS.fitted(table, routine, mode).cycles(terms)
    return np.ceil(cycles)


def priced_loops(dims: Dims) -> PricedLoops:
    """The loops of a call, joined as the emitted call joins them."""
    found, (extents, strides, count) = results_of(dims), _gathered(dims)
    rows, steps = found.rows, found.steps
    step = np.where(np.equal(steps[0], 1) & np.greater(rows.row, 1), steps[1], 0)
    step = np.where(np.less_equal(step, max(_STEPS)), step, 0)
    along = np.greater(count, 0) & np.equal(strides[0], 1) & np.greater_equal(extents[0], PARTS)
    along = along & np.not_equal(step, 1)
    few = np.greater(extents[0], 1) & np.less_equal(extents[0], MOST_TAPS)
    taps = np.where(few & ~along, extents[0], 1)
    single = along | np.greater(taps, 1)
    inner, outer = (_either(single, extents[i + 1], extents[i]) for i in (0, 1))
    looped = np.greater(inner * outer, 1)
    around = along & np.equal(steps[1] % VECTOR_LANES, 0)
    x_aligned = found.apart[1] & (~along | around | np.equal(rows.row, 1))
    for place in range(_LOOPS):
        aside = along & (place == 0)
        whole = np.equal(strides[place] % VECTOR_LANES, 0) | np.less_equal(extents[place], 1)
        x_aligned = x_aligned & (aside | whole)
    code = np.where(along, 0, step) + 3 * (taps - 1) + 9 * looped + 18 * along
    length = np.where(along, extents[0], taps)
    return PricedLoops(
        code,
        rows,
        Extents(rows.rows, rows.row, outer, inner, length, rows.around),
        x_aligned,
        (_starts(dims, 0, "y_starts"), _starts(dims, 1, "x_starts")),
        np.less_equal(count, _LOOPS) & (single | np.equal(extents[2], 1)),
    )


def _starts(dims: Dims, operand: int, several: str) -> Value:
    """Share of the calls in which an operand starts with a vector: 0 or 1 if it is known."""
    known = dims.get(f"start_{operand}")
    return 1 / dims.get(several, 1) if known is None else np.equal(known, 1) * 1.0


def _either(condition: Value, one: Value, other: Value) -> Value:
    return np.where(condition, one, other)


def _gathered(dims: Dims) -> tuple[list[Value], list[Value], Value]:
    """Extents and strides of the gathering loops, innermost first, and their number."""
    extents: list[Value] = [1] * _LOOPS
    strides: list[Value] = [0] * _LOOPS
    count: Value = 0
    for extent, apart in _axes(dims):
        several, joins = np.greater(extent, 1), np.equal(0, 1)
        for place in range(_LOOPS):
            same = np.equal(apart, extents[place] * strides[place])
            here = several & np.equal(count, place + 1) & same
            extents[place] = np.where(here, extents[place] * extent, extents[place])
            joins = joins | here
        new = several & ~joins
        for place in range(_LOOPS):
            here = new & np.equal(count, place)
            extents[place] = np.where(here, extent, extents[place])
            strides[place] = np.where(here, apart, strides[place])
        count = count + new
    return extents, strides, count


def _axes(dims: Dims) -> Iterator[tuple[Value, Value]]:
    """Extent and distance of each gathered axis, innermost first."""
    number = 0
    while f"gathered_{number}" in dims:
        yield dims[f"gathered_{number}"], dims[f"gathered_apart_{number}"] - 1
        number += 1
