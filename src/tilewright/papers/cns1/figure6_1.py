"""Figure 6.1: one pass of the error loop whose accesses miss the open lines."""

from __future__ import annotations

from matplotlib.figure import Figure

from tilewright.machine import load_machine
from tilewright.papers.cns1.bars import spans
from tilewright.papers.cns1.cases import CHIPS
from tilewright.papers.cns1.error_loop import pass_spans, rows
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.memory import VECTOR_BYTES, read_cycles
from tilewright.targets.cns1.timing.training import error_pass_cycles

TITLE = "a pass of the error loop that misses"


def run(lab: Lab) -> Result:
    """The closed form to the digit; beside it the report's listing on a simulated node."""
    ours: dict[str, float] = {}
    for chips, suffix in CHIPS.items():
        machine = load_machine(f"cns1-128{suffix}")
        _, miss = error_pass_cycles(machine)
        ours[f"pass with a miss, {chips}"] = miss
        first = read_cycles(machine, VECTOR_BYTES).dirty_miss
        ours["pass with a miss, after the first data"] = miss - first
    return reproduced(lab, "figure6_1", TITLE, ours, beside=rows(missing=True))


def draw(result: Result) -> Figure:
    """Timeline of when each unit is busy, in the listing on a simulated node."""
    return spans(pass_spans(missing=True), title=TITLE, x_label="cycles")
