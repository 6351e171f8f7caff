"""The error loop of training on a simulated node: Figures 6.1, 6.2, both listings.

Each table or figure is a function by its name in `TITLES`.
"""

from __future__ import annotations

import itertools

import numpy as np
from matplotlib.figure import Figure

from tilewright.machine import load_machine
from tilewright.machine.model import Leaf
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.cns1.repaired import run_listing
from tilewright.papers.figures import spans
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result, Row, compare
from tilewright.simulate.runs import CoreRun
from tilewright.targets.cns1.kernels import run as kernels
from tilewright.targets.cns1.kernels.bodies import errors_body
from tilewright.targets.cns1.kernels.pipelining import port_cycles, scheduled_loop
from tilewright.targets.cns1.timing import training
from tilewright.targets.cns1.timing.layers import VECTOR_BYTES, read_cycles

TITLES = {
    "figure6_1": "a pass of the error loop that misses",
    "figure6_2": "a pass of the error loop that hits",
}

ELEMENTS, OUTPUTS = 1024, 1024
ONE_SIZE: dict[str, Leaf] = {"memory.main.capacity_bytes": 8 << 20}
"""Nodes with memories of one size share the compiled simulator."""
_PARTS = (
    *(f"RDRAM port {port}, until the data arrive" for port in range(4)),
    *("MEM loads, main memory", "MEM loads, data cache", "VP0", "VP1"),
    *("MEM stores, data cache", "SCALAR"),
)


def listing_passes(chips: str) -> list[int]:
    """Cycles of successive passes of the report's listing: four miss, the others hit."""
    return [after - before for before, after in itertools.pairwise(_starts(_listing_run(chips)))]


def pass_spans(*, missing: bool) -> list[tuple[str, float, float]]:
    """One pass of the listing on a simulated node: (unit, first cycle, cycles)."""
    found = _listing_run("")
    starts = _starts(found)
    first, end = starts[:2] if missing else starts[-2:]
    read = read_cycles(load_machine("cns1-128"), VECTOR_BYTES)
    arrives = read.clean_miss if missing else read.hit
    spans, ports = [], 0
    for issue in (i for i in found.issues if first <= i.cycle < end):
        instruction, start = found.instruction(issue.instruction), issue.cycle - first
        unit, spec = issue.unit, instruction.spec
        if unit == "MEM":
            what = "stores" if instruction.traits.store else "loads"
            unit = f"MEM {what}, {'main memory' if spec.memory == 'main' else 'data cache'}"
        spans.append((unit, start, spec.occupancy_cycles))
        if spec.memory == "main":
            spans.append((_PARTS[ports % 4], start, arrives))
            ports += 1
    return sorted(spans, key=lambda span: _PARTS.index(span[0]))


def _starts(found: CoreRun) -> list[int]:
    first = found.program.labels["loop"]
    return [issue.cycle for issue in found.issues if issue.instruction == first]


def _listing_run(chips: str) -> CoreRun:
    machine, zeros = load_machine(f"cns1-128{chips}", ONE_SIZE), np.zeros(ELEMENTS, np.uint8)
    return run_listing("errors", zeros, [], [5], (0, ELEMENTS, 0, OUTPUTS), machine, trace=True)


def rows(missing: bool) -> list[Row]:
    """Simulated passes of the listing, `missing` or with all hits; with all hits, ours too."""
    found = []
    for chips, suffix in (("4.5 Mb", ""), ("18 Mb", "-18mb")):
        cycles = listing_passes(suffix)[0 if missing else -1]
        name = f"the listing on a simulated node, {chips}"
        note = "main loads are eight cycles apart in the listing, five in the figure"
        found.append(compare(name, None, cycles, "simulated", note=note))
    if not missing:
        schedule = scheduled_loop(errors_body(), port_cycles(load_machine("cns1-128")))
        note = schedule.statement()
        interval = schedule.interval_cycles
        found.append(compare("ours, a pass", None, interval, "exact", note=note))
        zeros = np.zeros(ELEMENTS, np.int8)
        whole = kernels.errors(load_machine("cns1-128"), zeros, zeros, 1)
        name = f"ours, {ELEMENTS} elements"
        found.append(compare(name, None, whole.cycles, "simulated", note="four passes miss"))
    return found


# Figure 6.1: a pass of the error loop whose accesses miss the open lines.


def figure6_1(lab: Lab) -> Findings:
    """The closed form, digit for digit; beside it the report's listing on a simulated node."""
    return reproduced(lab, "figure6_1", vars(training), beside=rows(missing=True))


def draw_figure6_1(result: Result) -> Figure:
    """Timeline of each unit's activity in the listing on a simulated node."""
    return spans(pass_spans(missing=True), title=TITLES["figure6_1"], x_label="cycles")


# Figure 6.2: a pass of the error loop whose accesses hit the open lines.


def figure6_2(lab: Lab) -> Findings:
    """The closed form; beside it the listing on a simulated node, and our pipelined loop."""
    return reproduced(lab, "figure6_2", vars(training), beside=rows(missing=False))


def draw_figure6_2(result: Result) -> Figure:
    """Timeline of each unit's activity in the listing on a simulated node."""
    return spans(pass_spans(missing=False), title=TITLES["figure6_2"], x_label="cycles")
