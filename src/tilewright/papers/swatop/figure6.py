"""swATOP Figure 6: Winograd convolution against transforms around calls of a matrix library.

The layers are those with 3 x 3 kernels and no stride. The manual version is F(2x2, 3x3), whose 16
products are separate calls of the library; the tuned one may take F(4x4, 3x3).
"""

from __future__ import annotations

from tilewright.ops import Conv2d
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.papers.swatop.layers import layers, speedup_figure, speedup_result
from tilewright.papers.swatop.listings import BATCHES

TITLE = "Winograd convolution against library products, layers of three networks"
ALGORITHM = "winograd2"
draw = speedup_figure


def run(lab: Lab) -> Result:
    """Every layer that Winograd computes, at each batch."""
    cases = {batch: winograd_layers(batch) for batch in BATCHES}
    return speedup_result(lab, "figure6", TITLE, ALGORITHM, cases, alike_is="F(2x2, 3x3) in both")


def winograd_layers(batch: int) -> dict[str, Conv2d]:
    """Layers with 3 x 3 kernels, no stride."""
    found = layers(batch, first=False)
    return {k: op for k, op in found.items() if op.kernel == (3, 3) and op.stride == (1, 1)}
