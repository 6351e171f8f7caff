"""What the elementwise routines cost: the forms of `vector_timing` on the extents of a call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, Costs, PricedCall
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import ScaleAdd, WinogradTransform
from tilewright.machine import Machine
from tilewright.targets.sw26010.gemm_shape import VECTOR_LANES
from tilewright.targets.sw26010.vector_nest import Work
from tilewright.targets.sw26010.vector_routines import routine_of
from tilewright.targets.sw26010.vector_timing import (
    RoutineTiming,
    nest_terms,
    rows_terms,
    timings_of,
)


def emitted_costs(loops: Costs) -> Costs:
    """The costs of primitives: of those that have a routine its cycles, of others what `loops` say.

    A machine without an instruction table has nothing that a routine's cycles come from.
    """
    return {kind: _emitted(cost) for kind, cost in loops.items()}


def _emitted(otherwise: CallCost) -> CallCost:
    def cost(machine: Machine, call: PricedCall[Primitive]) -> Value:
        table, routine = machine.core.instruction_table, routine_of(call.primitive, call.dtype)
        if table is None or routine is None:
            return otherwise(machine, call)
        timing = timings_of(table).routines[routine.name]
        if routine.work is None:
            return _repacked(timing, call)
        return _calls(call) * _nest(timing, routine.work, call)

    return cost


def _nest(timing: RoutineTiming, work: Work, call: PricedCall[Primitive]) -> Value:
    """Rows as long as all operands are contiguous; by vectors where they are whole vectors. Where
    there is no such row the innermost loop is one, of elements that lie apart.
    """
    run = call.dims["common_run"]
    run = np.maximum(np.where(np.greater(run, 1), run, call.dims["inner"]), 1)
    rows = -(-_elements(call) // run)
    vectors = nest_terms(work.unrolled, rows, run // VECTOR_LANES)
    elements = nest_terms(work.unrolled, rows, run)
    contiguous = np.greater(call.dims["common_run"], 1) & np.equal(run % VECTOR_LANES, 0)
    return _either(timing, contiguous, vectors, elements)


def _elements(call: PricedCall[Primitive]) -> Value:
    """Elements of the result; of a transform its tiles, over every axis that it leaves alone."""
    if not isinstance(call.primitive, WinogradTransform):
        return call.dims["elements"]
    tiles: Value = 1
    for name, extent in call.dims.items():
        if len(name) == 1 and name not in "xrc":
            tiles = tiles * extent
    return tiles


def _calls(call: PricedCall[Primitive]) -> Value:
    """One call of the routine for each further operand."""
    if not isinstance(call.primitive, ScaleAdd):
        return 1
    return np.maximum(call.dims["operands"] - 1, 1)


def _repacked(timing: RoutineTiming, call: PricedCall[Primitive]) -> Value:
    """One call for each dimension that changes on the last core. All cores wait for the one that
    moves most: a tile of which next to nothing is cut off, or the last one, with the most zeros.
    """
    total: Value = 0
    for name, rows in call.dims.items():
        if not name.startswith("rows_"):
            continue
        number = name.removeprefix("rows_")
        whole, cut = call.dims[f"whole_{number}"], call.dims[f"above_cut_{number}"] - 1
        cut = np.minimum(cut, whole)
        by_vectors = np.equal(whole % VECTOR_LANES, 0) & np.equal(cut % VECTOR_LANES, 0)
        each = []
        for kept in (cut, whole):
            vectors = rows_terms(True, rows, whole // VECTOR_LANES, kept // VECTOR_LANES)
            elements = rows_terms(True, rows, whole, kept)
            each.append(_either(timing, by_vectors, vectors, elements))
        total = total + np.where(np.less(cut, whole), np.maximum(*each), 0)
    return total


def _either(
    timing: RoutineTiming, by_vectors: Value, vectors: Sequence[Value], elements: Sequence[Value]
) -> Value:
    ways = (timing.vectors.coefficients, vectors), (timing.elements.coefficients, elements)
    sums = [sum(c * term for c, term in zip(*way, strict=True)) for way in ways]
    return np.where(by_vectors, *sums)
