"""Figure 6.2: one pass of the error loop whose accesses hit the open lines."""

from __future__ import annotations

from matplotlib.figure import Figure

from tilewright.machine import load_machine
from tilewright.papers.cns1.bars import spans
from tilewright.papers.cns1.error_loop import pass_spans, rows
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.training import error_pass_cycles

TITLE = "a pass of the error loop that hits"


def run(lab: Lab) -> Result:
    """The closed form; beside it the listing on a simulated node, and our pipelined loop."""
    hit, _ = error_pass_cycles(load_machine("cns1-128"))
    ours = {"pass with hits": float(hit)}
    return reproduced(lab, "figure6_2", TITLE, ours, beside=rows(missing=False))


def draw(result: Result) -> Figure:
    """Timeline of when each unit is busy, in the listing on a simulated node."""
    return spans(pass_spans(missing=False), title=TITLE, x_label="cycles")
