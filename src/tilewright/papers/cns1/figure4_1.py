"""Figure 4.1: products, global sums and sigmoid computation of recall, interleaved."""

from __future__ import annotations

from matplotlib.figure import Figure

from tilewright.papers.cns1.bars import spans
from tilewright.papers.cns1.cases import BEST, MODEL
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Round, interleaving

TITLE = "how the parts of steps 2 and 3 are interleaved"


def run(lab: Lab) -> Result:
    """The order of the figure, played with the times of the formulas."""
    rounds = interleaving(MODEL.recall(BEST).forward)
    busy = [r.what for r in rounds if r.where == "processor"]
    beside = [r for r in rounds if r.what == "sums" and _runs_beside(r, rounds)]
    ours = {
        "products before the first sigmoid of step 2": busy.index("sigmoid"),
        "global sums that run beside the processor": len(beside),
        "rounds of step 2": sum(r.what == "product" and r.step == 2 for r in rounds),
        "rounds of step 3": sum(r.what == "product" and r.step == 3 for r in rounds),
    }
    return reproduced(lab, "figure4_1", TITLE, ours, kind="exact")


def draw(result: Result) -> Figure:
    """The report's figure: the beginning, the switch from step 2 to 3, the end."""
    rounds = interleaving(MODEL.recall(BEST).forward)
    found = [
        (f"{r.where}: {r.what}, step {r.step}", r.start_cycle, r.end_cycle - r.start_cycle)
        for r in rounds
    ]
    second = [r for r in rounds if r.what == "product" and r.step == 3]
    each, end = rounds[0].end_cycle, max(r.end_cycle for r in rounds)
    switch = second[0].start_cycle
    windows = (
        ("the beginning", 0, 2.5 * each),
        ("from step 2 to step 3", switch - each, switch + 1.5 * each),
        ("the end", end - 2.5 * each, end),
    )
    return spans(found, title=TITLE, x_label="cycles", windows=windows)


def _runs_beside(sums: Round, rounds: list[Round]) -> bool:
    """True if a product runs in the same cycles as `sums`."""
    return any(
        r.what == "product" and r.start_cycle < sums.end_cycle and sums.start_cycle < r.end_cycle
        for r in rounds
    )
