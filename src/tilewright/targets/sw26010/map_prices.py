"""What maps cost: the form of `map_timing` on the rows of a call, with its routine's cycles, and
the loop in C of `compiled_loops` where there is none.
"""

from __future__ import annotations

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.calls import CallCost, PricedCall
from tilewright.ir.primitives import Map
from tilewright.machine import Machine
from tilewright.targets.sw26010.map_timing import map_terms, map_timing
from tilewright.targets.sw26010.vector_code import MODES
from tilewright.targets.sw26010.vector_map import MapRoutine, map_routine


def emitted_map(compiled: CallCost) -> CallCost:
    """The cost of a map by its routine, else that of the loop which a compiler makes. Candidates
    may differ in which operands stay the same along a row, and so in their routine.
    """

    def cost(machine: Machine, call: PricedCall[Map]) -> Value:
        table = machine.core.instruction_table
        if table is None or call.primitive.dtype is not None or "still" not in call.dims:
            return compiled(machine, call)
        sources, code = int(np.max(call.dims["operands"])) - 1, np.asarray(call.dims["still"])
        cycles: Value = 0
        for number in np.unique(code):
            still = tuple(bool((int(number) - 1) >> i & 1) for i in range(sources))
            routine = map_routine(call.primitive.expression, still, call.dtype)
            each = compiled(machine, call) if routine is None else _rows(table, routine, call)
            cycles = np.where(code == number, each, cycles)
        return cycles

    return cost


def _rows(table: str, routine: MapRoutine, call: PricedCall[Map]) -> Value:
    row = np.maximum(call.dims["row"], 1)
    by_vectors = np.equal(call.dims["by_vectors"], 2)
    timing, rows = map_timing(table, routine), call.dims["elements"] // row
    ways = []
    for mode, fit in zip(MODES, (timing.vectors, timing.elements), strict=True):
        pairs = zip(fit.coefficients, map_terms(routine, mode, rows, row), strict=True)
        ways.append(sum((c * term for c, term in pairs), start=np.float64(0)))
    return np.ceil(np.where(by_vectors, *ways))
