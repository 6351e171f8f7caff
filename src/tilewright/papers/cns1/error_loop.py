"""The error loop of training on a simulated node: the report's listing, and ours."""

from __future__ import annotations

import itertools

import numpy as np

from tilewright.machine import load_machine
from tilewright.machine.model import Leaf
from tilewright.papers.cns1.repaired import listing
from tilewright.papers.model import Row, compare
from tilewright.targets.cns1.kernels import run as kernels
from tilewright.targets.cns1.kernels.bodies import errors_body
from tilewright.targets.cns1.kernels.pipelining import port_cycles, scheduled
from tilewright.targets.cns1.node import assembled, node_table, run_node

ELEMENTS, STACK, OUTPUTS = 1024, 4000, 1024
ONE_SIZE: dict[str, Leaf] = {"memory.main.capacity_bytes": 8 << 20}
"""Nodes with memories of one size share the compiled simulator."""


def listing_passes(chips: str) -> list[int]:
    """Cycles from pass to pass of the report's listing: four miss, the others hit."""
    table = node_table(load_machine(f"cns1-128{chips}", ONE_SIZE))
    cache = np.zeros(STACK + 4, np.uint8)
    cache[STACK] = 5
    registers = {"$4": 0, "$5": ELEMENTS, "$6": 0, "$7": OUTPUTS, "$29": STACK}
    found = run_node(
        assembled(listing("errors"), table),
        main=np.zeros(ELEMENTS, np.uint8),
        cache=cache,
        registers=registers,
        trace=True,
    )
    first = found.program.labels["loop"]
    starts = [issue.cycle for issue in found.issues if issue.instruction == first]
    return [after - before for before, after in itertools.pairwise(starts)]


def rows(missing: bool) -> list[Row]:
    """The same passes simulated, and ours where all accesses hit."""
    found = []
    for chips, suffix in (("4.5 Mb", ""), ("18 Mb", "-18mb")):
        cycles = listing_passes(suffix)[0 if missing else -1]
        name = f"the listing on a simulated node, {chips}"
        note = "main loads are eight cycles apart in the listing, five in the figure"
        found.append(compare(name, None, cycles, "simulated", note=note))
    if not missing:
        schedule = scheduled(errors_body(), port_cycles(load_machine("cns1-128")))
        note = schedule.statement()
        interval = schedule.interval_cycles
        found.append(compare("ours, a pass", None, interval, "exact", note=note))
        zeros = np.zeros(ELEMENTS, np.int8)
        whole = kernels.errors(load_machine("cns1-128"), zeros, zeros, 1)
        name = f"ours, {ELEMENTS} elements"
        found.append(compare(name, None, whole.cycles, "simulated", note="four passes miss"))
    return found
