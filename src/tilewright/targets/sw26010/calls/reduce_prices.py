"""What reductions cost: the form of `timing.reductions` on the loops of a call, with its routine's
cycles, and the loop in C of `compiled_loops` where there is none.

In: the loops of a call over its results (`cost.nests`) and the axes that it gathers along
(`cost.reductions`), for many candidates at once. Out: cycles. Both are joined as the emitted call
joins them, which says how the operands lie along a row and so which routine is taken, and in which
of its modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, Dims, PricedCall
from tilewright.ir.primitives import Reduce
from tilewright.machine import Machine
from tilewright.targets.sw26010.calls.nest_rows import Rows, has_loops, results_of
from tilewright.targets.sw26010.elementwise.reduce import (
    ELEMENTS,
    LANES,
    MOST_TAPS,
    PARTS,
    VECTORS,
    Lie,
    ReduceRoutine,
)
from tilewright.targets.sw26010.elementwise.reduce_text import reduce_routine
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES
from tilewright.targets.sw26010.timing.reductions import Extents, reduce_terms, reduce_timing

_STEPS = (0, 1, 2)
_LOOPS = 3


@dataclass(frozen=True)
class PricedLoops:
    """How operands lie and what the loops run over, for each candidate. `shares` are those of the
    calls whose results, and whose elements, start with a vector; `priced` is whether a routine has
    as many loops.
    """

    code: Value
    rows: Rows
    extents: Extents
    x_by_vectors: Value
    shares: tuple[Value, Value]
    priced: Value


def emitted_reduce(compiled: CallCost) -> CallCost:
    """The cost of a reduction by its routine, else that of the loop which a compiler makes."""

    def cost(machine: Machine, call: PricedCall[Reduce]) -> Value:
        table = machine.core.instruction_table
        if table is None or not has_loops(call.dims):
            return compiled(machine, call)
        nest = priced_loops(call.dims)
        cycles: Value = 0
        for number in np.unique(nest.code):
            routine = routine_of_code(call, int(number))
            each = compiled(machine, call) if routine is None else _cycles(table, routine, nest)
            cycles = np.where(np.equal(nest.code, number), each, cycles)
        if np.all(nest.priced):
            return cycles
        return np.where(nest.priced, cycles, compiled(machine, call))

    return cost


def routine_of_code(call: PricedCall[Any], code: int) -> ReduceRoutine | None:
    """The routine of a reduction whose operands lie as the code of a nest says."""
    primitive = call.primitive
    return reduce_routine(primitive.function, primitive.expression, lie_of(code), call.dtype)


def lie_of(code: int) -> Lie:
    """How operands lie, from the number that stands for it."""
    step, taps, loops, along = code % 3, code // 3 % 3 + 1, code // 9 % 2, code // 18
    return Lie(step, taps, bool(loops), bool(along))


def mode_cycles(table: str, routine: ReduceRoutine, mode: str, extents: Extents) -> Value:
    """Cycles of a call in one of the routine's modes."""
    coefficients = reduce_timing(table, routine).modes[mode].coefficients
    pairs = zip(coefficients, reduce_terms(routine, mode, extents), strict=True)
    return sum((c * term for c, term in pairs), start=np.float64(0))


def mode_shares(routine: ReduceRoutine, nest: PricedLoops) -> Mapping[str, Value]:
    """The share of the calls that each mode does."""
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


def _cycles(table: str, routine: ReduceRoutine, nest: PricedLoops) -> Value:
    cycles: Value = 0
    for mode, share in mode_shares(routine, nest).items():
        cycles = cycles + share * mode_cycles(table, routine, mode, nest.extents)
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
    """The share of the calls in which an operand starts with a vector: all or none where the code
    knows its place.
    """
    known = dims.get(f"start_{operand}")
    return 1 / dims.get(several, 1) if known is None else np.equal(known, 1) * 1.0


def _either(condition: Value, one: Value, other: Value) -> Value:
    return np.where(condition, one, other)


def _gathered(dims: Dims) -> tuple[list[Value], list[Value], Value]:
    """Extents and strides of the loops that gather, innermost first, and how many there are."""
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
    """Extent and distance of each axis that is gathered along, innermost first."""
    number = 0
    while f"gathered_{number}" in dims:
        yield dims[f"gathered_{number}"], dims[f"gathered_apart_{number}"] - 1
        number += 1
