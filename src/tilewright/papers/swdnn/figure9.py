"""swDNN Fig. 9: convolutions with kernels from 3 x 3 to 21 x 21."""

from __future__ import annotations

from matplotlib.figure import Figure

from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Result
from tilewright.papers.swdnn.sweep import SweepConfiguration, sweep_figure, sweep_result

TITLE = "convolutions over the size of the kernel, four core groups"
_LAYERS = [SweepConfiguration(n, n, kernel) for n in (128, 192, 256) for kernel in range(3, 22, 2)]
_QUICK = 4


def run(lab: Lab) -> Findings:
    """The right script of Fig. 8, with ends included."""
    counts = (
        "the loops as printed in Fig. 8 give 20 configurations, with ends included 30, as the text"
        " counts; the script starts No, but tests and steps Ni: Ni = No is taken"
    )
    return sweep_result(lab, "figure9", _LAYERS, _QUICK, counts)


def draw(result: Result) -> Figure:
    """Each way over the configurations."""
    return sweep_figure(result)
