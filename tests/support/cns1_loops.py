"""The loops of kernels on the machines of the CNS-1, and on those that `explain` asks about."""

from itertools import product

from tilewright.cost.prices import prices_of
from tilewright.machine import Machine, load_machine
from tilewright.machine.build import changed
from tilewright.targets.cns1.emit.calls import ROUNDING, product_body
from tilewright.targets.cns1.kernels.bodies import (
    FACTORS,
    SCALAR_FACTORS,
    Body,
    backward_body,
    errors_body,
    forward_body,
    set_update_body,
    update_body,
)
from tilewright.targets.cns1.kernels.elements import (
    ENTRIES,
    Elements,
    TableLookups,
    elements_body,
    lookup_body,
)
from tilewright.targets.cns1.kernels.pipelining import PortCycles, port_cycles
from tilewright.targets.cns1.sections import Vectors

MACHINES = ("cns1-128", "cns1-128-18mb", "cns1-1024", "cns1-1024-18mb")


def usual_loops() -> list[tuple[Body, PortCycles]]:
    """Each loop once, with what its accesses take."""
    found: dict[tuple[Body, PortCycles], None] = {}
    for name in MACHINES:
        machine = load_machine(name)
        for settings in ({}, *prices_of(machine).changes(machine)):
            other = changed(machine, settings)
            found |= dict.fromkeys((body, port_cycles(other)) for body in _bodies(other))
        found |= dict.fromkeys((body, port_cycles(machine)) for body in SCALED_LOOPS)
    return list(found)


SETS = (
    forward_body(3),
    *(backward_body(patterns) for patterns in (2, 3)),
    *(set_update_body(patterns, ROUNDING) for patterns in (2, 3)),
)
"""The loops of sets of patterns beyond those of recall."""
SCALED_LOOPS = (update_body(rounding=ROUNDING), *SETS)


OUTPUT_ERRORS = Elements("3 * (x0 - x1)", (1, 1), 2)
"""The scaled difference of results and outputs."""
HIDDEN_ERRORS = Elements("x0 * x1 * (x1 - 1)", (4, 1), 2)
"""Sums of errors, scaled by the hidden vector."""


def _bodies(machine: Machine) -> list[Body]:
    vectors = machine.section(Vectors)
    in_vectors = vectors.scalar_registers > 0
    accumulate = vectors.multiply_accumulate > 0
    factors = FACTORS if vectors.scalar_registers else SCALAR_FACTORS
    return [
        *(product_body(machine, patterns, size) for patterns, size in product((1, 2), (1, 2))),
        *(backward_body(accumulate=accumulate, factor_bytes=size) for size in (1, 2)),
        *(update_body(rows, factors) for rows in range(1, 5)),
        errors_body(),
        *(elements_body(e, vector_scalars=in_vectors) for e in (OUTPUT_ERRORS, HIDDEN_ERRORS)),
        lookup_body(TableLookups(ENTRIES, shift=0)),
    ]
