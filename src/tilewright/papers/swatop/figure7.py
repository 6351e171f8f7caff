"""swATOP Figure 7: explicit GEMM against an expansion around calls of a matrix library."""

from __future__ import annotations

from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.papers.swatop.layers import layers, speedup_figure, speedup_result
from tilewright.papers.swatop.listings import BATCHES

TITLE = "explicit convolution against library products, layers of three networks"
draw = speedup_figure


def run(lab: Lab) -> Result:
    """All 43 layers at each batch."""
    cases = {batch: layers(batch) for batch in BATCHES}
    return speedup_result(lab, "figure7", TITLE, "explicit", cases)
