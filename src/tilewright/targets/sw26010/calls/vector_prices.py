"""What the elementwise routines cost: the forms of `timing.vector` on the extents of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product as combinations
from math import prod
from typing import TypeAlias

import numpy as np

from tilewright.common.classes import classes_of
from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, Costs, Dims, PricedCall
from tilewright.cost.timing import RepackedAxis, repacked_axes
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MultiplyAccumulate, ScaleAdd, Windows, WinogradTransform
from tilewright.machine import Machine
from tilewright.targets.sw26010.calls.nest_rows import OUTER_LOOPS, Rows, has_loops, rows_of
from tilewright.targets.sw26010.elementwise.routines import routine_of
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES
from tilewright.targets.sw26010.timing.vector import (
    RoutineTiming,
    nest_terms,
    rows_terms,
    timings_of,
)


def emitted_costs(loops: Costs) -> Costs:
    """The costs of primitives: of those that have a routine its cycles, of others what `loops` say.

    A call takes whole cycles, as in a simulation. A machine without an instruction table has
    nothing that a routine's cycles come from.
    """
    return {kind: _emitted(cost) for kind, cost in loops.items()}


def _emitted(otherwise: CallCost) -> CallCost:
    def cost(machine: Machine, call: PricedCall[Primitive]) -> Value:
        table, routine = machine.core.instruction_table, routine_of(call.primitive, call.dtype)
        if table is None or routine is None:
            return otherwise(machine, call)
        timing = timings_of(table).routines[routine.name]
        if routine.work is None:
            return repacked_cycles(call.dims, partial(_rows, timing))
        cycles: Value = 0
        for calls, rows in nests_of(call):
            cycles = cycles + calls * nest_cycles(timing, routine.work.unrolled, rows)
        return cycles

    return cost


def nests_of(call: PricedCall[Primitive]) -> Iterator[tuple[Value, Rows]]:
    """The calls of the routine: how many of which rows. One for each further operand, or for each
    factor.
    """
    if not has_loops(call.dims):
        yield _calls(call), _rows_in_one_loop(call)
        return
    operands = int(np.max(call.dims["operands"]))
    match call.primitive:
        case ScaleAdd():
            for other in range(1, operands):
                yield 1, rows_of(call.dims, (0, other))
            if operands == 1:
                yield 1, rows_of(call.dims, (0, 0))
        case MultiplyAccumulate():
            yield call.dims["factors"], rows_of(call.dims, (0, 1), beside=2)
        case _:
            yield 1, rows_of(call.dims, range(operands))


def nest_cycles(timing: RoutineTiming, unrolled: int, rows: Rows) -> Value:
    """Whole cycles of a nest."""
    return np.ceil(fitted_cycles(timing, rows.by_vectors, nest_terms(unrolled, rows)))


def _rows_in_one_loop(call: PricedCall[Primitive]) -> Rows:
    """What is assumed where operands divide an axis differently: rows as long as all operands are
    contiguous, by vectors where they are whole vectors, in one loop.
    """
    common = np.maximum(call.dims["common_run"], 1)
    contiguous = np.greater(common, 1) & np.equal(common % VECTOR_LANES, 0)
    row = _row(call, common)
    return Rows(row, -(-_elements(call) // row), (0,) * OUTER_LOOPS, contiguous)


def _row(call: PricedCall[Primitive], common: Value) -> Value:
    """Elements of the innermost loop. Neighbouring windows follow each other like neighbouring
    pixels, where they are not some pixels apart.
    """
    if not isinstance(call.primitive, Windows):
        return np.where(np.greater(common, 1), common, np.maximum(call.dims["inner"], 1))
    joined = call.primitive.stride == 1 or np.equal(common, 1)
    return common * np.where(joined, call.dims["t"], 1)


def _elements(call: PricedCall[Primitive]) -> Value:
    """Elements of the result in one call of the routine; of a transform its tiles, over every axis
    that it leaves alone.
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


def _each_once(dims: Dims, price: Callable[[Dims], Value]) -> Value:
    """Prices of candidates of which many are alike: those of one of each kind, for all of them."""
    shape = np.broadcast_shapes(*map(np.shape, dims.values()))
    if prod(shape) <= 1:
        return price(dims)
    varying = {name: value for name, value in dims.items() if np.size(value) > 1}
    columns = {name: np.broadcast_to(value, shape).ravel() for name, value in varying.items()}
    code, first = classes_of(list(columns.values()), prod(shape))
    places = np.asarray(first)
    one_each = {name: column[places] for name, column in columns.items()}
    return np.broadcast_to(price({**dims, **one_each}), len(first))[code].reshape(shape)


RowsCycles: TypeAlias = Callable[[bool, Value, Value, Value], Value]
"""Cycles of rows that change between two lengths in elements: whether they grow, how many there
are, the larger and the smaller length.
"""


def repacked_cycles(dims: Dims, rows_cycles: RowsCycles) -> Value:
    """Whole cycles of the slowest core, whose calls take `rows_cycles`."""
    return np.ceil(_each_once(dims, lambda each: _repacked(rows_cycles, each)))


def _repacked(rows_cycles: RowsCycles, dims: Dims) -> Value:
    """All cores wait for the slowest: along each axis a core has the largest or the smallest tile
    that is cut, or a whole one where there is any. These cores are priced as one array.
    """
    axes = repacked_axes(dims)
    cores = list(combinations(*(_tiles(axis, dims) for axis in axes)))
    shape = np.broadcast_shapes(*map(np.shape, dims.values()))
    kept = {axis: np.empty((len(cores), *shape), np.int64) for axis in axes}
    for i, axis in enumerate(axes):
        for row, core in enumerate(cores):
            kept[axis][row] = _kept(axis, core[i], dims)
    cycles = np.broadcast_to(_repacked_cores(rows_cycles, dims, kept), (len(cores), *shape))
    for i, axis in enumerate(axes):
        whole = np.reshape([core[i] == axis.whole for core in cores], (-1, *(1 for _ in shape)))
        cycles = np.where(whole & np.less_equal(dims[axis.some_whole], 1), 0, cycles)
    return cycles.max(axis=0)


def _tiles(axis: RepackedAxis, dims: Dims) -> tuple[str, ...]:
    """The tiles that cores may have, without one that is the same in all candidates."""
    if np.array_equal(dims[axis.most], dims[axis.least]):
        return axis.most, axis.whole
    return axis.most, axis.least, axis.whole


def _kept(axis: RepackedAxis, tile: str, dims: Dims) -> Value:
    """How many indices of the axis a core has."""
    return dims[tile] if tile == axis.whole else dims[tile] - 1


def _repacked_cores(
    rows_cycles: RowsCycles, dims: Dims, kept: Mapping[RepackedAxis, Value]
) -> Value:
    """Cores with so many indices of each axis: a call for each that is not whole, first those that
    are cut, the inner ones before the outer ones.
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


def _rows(timing: RoutineTiming, grows: bool, rows: Value, larger: Value, smaller: Value) -> Value:
    """Rows that change between two lengths in elements."""
    by_vectors = np.equal((larger | smaller) & (VECTOR_LANES - 1), 0)
    larger, smaller = (np.where(by_vectors, x // VECTOR_LANES, x) for x in (larger, smaller))
    return fitted_cycles(timing, by_vectors, rows_terms(grows, rows, larger, smaller))


def fitted_cycles(timing: RoutineTiming, by_vectors: Value, terms: Sequence[Value]) -> Value:
    """The form with the coefficients of vectors or of elements."""
    ways = timing.vectors.coefficients, timing.elements.coefficients
    cycles: Value = 0
    for vectors, elements, term in zip(*ways, terms, strict=True):
        cycles = cycles + np.where(by_vectors, vectors, elements) * term
    return cycles
