"""What reductions cost: the form of `reduce_timing` on the loops of a call, with its routine's
cycles, and the loop in C of `compiled_loops` where there is none.

In: the axes of a call (`cost.rows.reduced_axes`), for many candidates at once. Out: cycles. The
axes are joined to loops as the emitted call joins them, which says how the operands lie along a row
and so which routine is taken, and in which of its modes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, Dims, PricedCall
from tilewright.ir.primitives import Reduce
from tilewright.machine import Machine
from tilewright.targets.sw26010.gemm_shape import VECTOR_LANES
from tilewright.targets.sw26010.reduce_timing import (
    Extents,
    ReduceTiming,
    reduce_terms,
    reduce_timing,
)
from tilewright.targets.sw26010.vector_reduce import (
    ELEMENTS,
    LANES,
    MOST_TAPS,
    PARTS,
    VECTORS,
    Lie,
    ReduceRoutine,
)
from tilewright.targets.sw26010.vector_reduce_text import reduce_routine

_STEPS = (0, 1, 2)
_LOOPS = 3


@dataclass
class _Rows:
    """Rows of results: their length, what y and x move by in them, and whether every further loop
    keeps them aligned.
    """

    row: Value = 1
    steps: tuple[Value, Value] = (0, 0)
    aligned: tuple[Value, Value] = (True, True)


@dataclass(frozen=True)
class PricedLoops:
    """How operands lie and what the loops run over, for each candidate. `shares` are those of the
    calls whose results, and whose elements, start with a vector.
    """

    code: Value
    extents: Extents
    by_vectors: Value
    x_by_vectors: Value
    shares: tuple[Value, Value]
    priced: Value


def emitted_reduce(compiled: CallCost) -> CallCost:
    """The cost of a reduction by its routine, else that of the loop which a compiler makes."""

    def cost(machine: Machine, call: PricedCall[Reduce]) -> Value:
        table = machine.core.instruction_table
        if table is None or "reduced" not in call.dims:
            return compiled(machine, call)
        nest, primitive = priced_loops(call.dims), call.primitive
        cycles: Value = 0
        for number in np.unique(nest.code):
            lie = lie_of(int(number))
            routine = reduce_routine(primitive.function, primitive.expression, lie, call.dtype)
            if routine is None:
                each = compiled(machine, call)
            else:
                each = _cycles(reduce_timing(table, routine), routine, nest)
            cycles = np.where(np.equal(nest.code, number), each, cycles)
        if np.all(nest.priced):
            return cycles
        return np.where(nest.priced, cycles, compiled(machine, call))

    return cost


def _cycles(timing: ReduceTiming, routine: ReduceRoutine, nest: PricedLoops) -> Value:
    ways = {}
    for mode, fit in timing.modes.items():
        terms = reduce_terms(routine, mode, nest.extents)
        pairs = zip(fit.coefficients, terms, strict=True)
        ways[mode] = sum((c * term for c, term in pairs), start=np.float64(0))
    found = ways[ELEMENTS]
    x_share = nest.x_by_vectors * nest.shares[1]
    if routine.lie.along:
        found = x_share * ways[VECTORS] + (1 - x_share) * found
    elif routine.lie.step:
        share, by_lanes = nest.by_vectors * nest.shares[0], ways[LANES]
        if VECTORS in ways:
            by_lanes = x_share * ways[VECTORS] + (1 - x_share) * by_lanes
        found = share * by_lanes + (1 - share) * found
    return np.ceil(found)


def priced_loops(dims: Dims) -> PricedLoops:
    """The loops of a call, joined as the emitted call joins them."""
    rows, (extents, strides, count) = _rows(dims), _gathered(dims)
    step = np.where(np.equal(rows.steps[0], 1) & np.greater(rows.row, 1), rows.steps[1], 0)
    step = np.where(np.less_equal(step, max(_STEPS)), step, 0)
    along = np.greater(count, 0) & np.equal(strides[0], 1) & np.greater_equal(extents[0], PARTS)
    along = along & np.not_equal(step, 1)
    few = np.greater(extents[0], 1) & np.less_equal(extents[0], MOST_TAPS)
    taps = np.where(few & ~along, extents[0], 1)
    single = along | np.greater(taps, 1)
    inner, outer = (_either(single, extents[i + 1], extents[i]) for i in (0, 1))
    looped = np.greater(inner * outer, 1)
    around = along & np.equal(rows.steps[1] % VECTOR_LANES, 0)
    x_aligned = rows.aligned[1] & (~along | around | np.equal(rows.row, 1))
    for place in range(_LOOPS):
        aside = along & (place == 0)
        whole = np.equal(strides[place] % VECTOR_LANES, 0) | np.less_equal(extents[place], 1)
        x_aligned = x_aligned & (aside | whole)
    code = np.where(along, 0, step) + 3 * (taps - 1) + 9 * looped + 18 * along
    length = np.where(along, extents[0], taps)
    results = dims["elements"] // rows.row
    by_vectors = rows.aligned[0] & np.equal(rows.row % VECTOR_LANES, 0)
    return PricedLoops(
        code,
        Extents(results, rows.row, outer, inner, length),
        by_vectors,
        x_aligned,
        (1 / dims.get("y_starts", 1), 1 / dims.get("x_starts", 1)),
        np.less_equal(count, _LOOPS) & (single | np.equal(extents[2], 1)),
    )


def _either(condition: Value, one: Value, other: Value) -> Value:
    return np.where(condition, one, other)


def lie_of(code: int) -> Lie:
    """How operands lie, from the number that stands for it."""
    step, taps, loops, along = code % 3, code // 3 % 3 + 1, code // 9 % 2, code // 18
    return Lie(step, taps, bool(loops), bool(along))


def _rows(dims: Dims) -> _Rows:
    """The innermost axis of results with more than one index, and those that both operands walk
    over as over one with it.
    """
    found = _Rows()
    following: tuple[Value, Value] = (0, 0)
    joined: Value = True
    for extent, *apart in _axes(dims, "kept", ("y_apart", "x_apart")):
        several = np.greater(extent, 1)
        first = several & np.equal(found.row, 1)
        same = joined & np.equal(apart[0], following[0]) & np.equal(apart[1], following[1])
        joins = several & ~first & same
        other = several & ~first & ~joins
        found.row = np.where(first | joins, found.row * extent, found.row)
        steps = [np.where(first, now, step) for now, step in zip(apart, found.steps, strict=True)]
        nexts = [
            np.where(first | joins, extent * now, after)
            for now, after in zip(apart, following, strict=True)
        ]
        aligned = [
            here & (~other | np.equal(now % VECTOR_LANES, 0))
            for now, here in zip(apart, found.aligned, strict=True)
        ]
        found.steps, following = (steps[0], steps[1]), (nexts[0], nexts[1])
        found.aligned, joined = (aligned[0], aligned[1]), joined & ~other
    return found


def _gathered(dims: Dims) -> tuple[list[Value], list[Value], Value]:
    """Extents and strides of the loops that gather, innermost first, and how many there are."""
    extents: list[Value] = [1] * _LOOPS
    strides: list[Value] = [0] * _LOOPS
    count: Value = 0
    for extent, apart in _axes(dims, "gathered", ("gathered_apart",)):
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


def _axes(dims: Dims, name: str, apart: tuple[str, ...]) -> Iterator[tuple[Value, ...]]:
    """Extent and distances of each axis, innermost first."""
    number = 0
    while f"{name}_{number}" in dims:
        distances = (dims[f"{one}_{number}"] - 1 for one in apart)
        yield dims[f"{name}_{number}"], *distances
        number += 1
