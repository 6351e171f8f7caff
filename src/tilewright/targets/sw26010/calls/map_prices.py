"""What maps cost: the form of `timing.maps` on the rows of a call, with its routine's cycles, and
the loop in C of `compiled_loops` where there is none.
"""

from __future__ import annotations

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, PricedCall
from tilewright.ir.primitives import Map
from tilewright.machine import Machine
from tilewright.targets.sw26010.calls.nest_rows import Rows, has_loops, rows_of
from tilewright.targets.sw26010.elementwise.code import MODES
from tilewright.targets.sw26010.elementwise.maps import MapRoutine, map_routine
from tilewright.targets.sw26010.elementwise.operands import LEVELS
from tilewright.targets.sw26010.timing.maps import map_terms, map_timing


def emitted_map(compiled: CallCost) -> CallCost:
    """The cost of a map by its routine, else that of the loop which a compiler makes. Candidates
    may differ in which operands stay the same along a row, and so in their routine, and in whether
    one has as many loops.
    """

    def cost(machine: Machine, call: PricedCall[Map]) -> Value:
        table = machine.core.instruction_table
        if table is None or call.primitive.dtype is not None or not has_loops(call.dims):
            return compiled(machine, call)
        rows, cycles = map_rows(call), 0 * call.dims["elements"]
        for number in np.unique(rows.still):
            routine = routine_of_rows(call, int(number))
            each = (
                compiled(machine, call) if routine is None else routine_cycles(table, routine, rows)
            )
            cycles = np.where(rows.still == number, each, cycles)
        if np.all(has_as_many_loops(rows)):
            return cycles
        return np.where(has_as_many_loops(rows), cycles, compiled(machine, call))

    return cost


def has_as_many_loops(rows: Rows) -> Value:
    """Whether a routine does."""
    return np.less_equal(rows.loops, LEVELS)


def map_rows(call: PricedCall[Map]) -> Rows:
    """The rows of a map's one nest."""
    return rows_of(call.dims, range(int(np.max(call.dims["operands"]))), may_stay=True)


def routine_of_rows(call: PricedCall[Map], still: int) -> MapRoutine | None:
    """The routine of a map whose operands stay the same along rows as the bits of `still` say."""
    sources = int(np.max(call.dims["operands"])) - 1
    stay = tuple(bool(still >> i & 1) for i in range(sources))
    return map_routine(call.primitive.expression, stay, call.dtype)


def routine_cycles(table: str, routine: MapRoutine, rows: Rows) -> Value:
    """Whole cycles of a nest of a map's routine."""
    timing, ways = map_timing(table, routine), []
    for mode, fit in zip(MODES, (timing.vectors, timing.elements), strict=True):
        pairs = zip(fit.coefficients, map_terms(routine, mode, rows), strict=True)
        ways.append(sum((c * term for c, term in pairs), start=np.float64(0)))
    return np.ceil(np.where(rows.by_vectors, *ways))
