"""swDNN Fig. 7: convolutions of 3 x 3 kernels over the numbers of channels."""

from __future__ import annotations

from matplotlib.figure import Figure

from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result
from tilewright.papers.swdnn.sweep import SweepConfiguration, sweep_figure, sweep_result

TITLE = "convolutions over the numbers of channels, four core groups"
_SMALL = [SweepConfiguration(i, o) for i in range(64, 129, 32) for o in range(64, 257, 32)]
_LARGE = [SweepConfiguration(i, o) for i in range(128, 385, 32) for o in range(128, 385, 32)]
_QUICK = 6


def run(lab: Lab) -> Findings:
    """Both scripts of Fig. 8, with ends included."""
    counts = (
        "the loops as printed in Fig. 8 give 14 and 64 configurations (Ni < 128; < 384), with all"
        " ends included 21 and 81; the text counts 1 to 21 and 22 to 101. Ends are included here"
    )
    return sweep_result(lab, "figure7", [*_SMALL, *_LARGE], _QUICK, counts)


def draw(result: Result) -> Figure:
    """Each way over the configurations."""
    return sweep_figure(result)
