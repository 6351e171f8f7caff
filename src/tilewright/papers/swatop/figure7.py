"""swATOP Figure 7: explicit GEMM against an expansion around calls of a matrix library."""

from __future__ import annotations

from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings
from tilewright.papers.swatop.layers import layers, speedup_figure, speedup_result
from tilewright.papers.swatop.listings import BATCHES
from tilewright.papers.swatop.schedules import our_product, setting

TITLE = "explicit convolution against library products, layers of three networks"
draw = speedup_figure


def run(lab: Lab) -> Findings:
    """All 43 layers at each batch."""
    cases = {batch: layers(batch) for batch in BATCHES}
    product = f"both versions with {our_product(setting(lab))}"
    return speedup_result(lab, "figure7", "explicit", cases, notes=(product, *_NOTES))


_NOTES = (
    "the expansion around the library's products is the tuned one; the paper's best case gains 15"
    " times, more than products alone can give: most of it must be its manual expansion",
)
