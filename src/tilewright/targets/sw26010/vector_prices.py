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
    timings_of,
)


def emitted_costs(loops: Costs) -> Costs:
    """The costs of primitives: of those that have a routine its cycles, of others what `loops` say.

    A call takes whole cycles, as in a simulation. A machine without an instruction table has
    nothing that a routine's cycles come from. What
    re-packing moves depends on core and iteration, which a price does not see: it has that of loops
    over the whole tile.
    """
    return {kind: _emitted(cost) for kind, cost in loops.items()}


def _emitted(otherwise: CallCost) -> CallCost:
    def cost(machine: Machine, call: PricedCall[Primitive]) -> Value:
        table, routine = machine.core.instruction_table, routine_of(call.primitive, call.dtype)
        if table is None or routine is None or routine.work is None:
            return otherwise(machine, call)
        timing = timings_of(table).routines[routine.name]
        return _calls(call) * np.ceil(_nest(timing, routine.work, call))

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


def _either(
    timing: RoutineTiming, by_vectors: Value, vectors: Sequence[Value], elements: Sequence[Value]
) -> Value:
    ways = (timing.vectors.coefficients, vectors), (timing.elements.coefficients, elements)
    sums = [sum(c * term for c, term in zip(*way, strict=True)) for way in ways]
    return np.where(by_vectors, *sums)
