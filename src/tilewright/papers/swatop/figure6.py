"""swATOP Figure 6: Winograd convolution against the same transforms around library products.

The layers are those with 3 x 3 kernels and no stride; F(2x2, 3x3), whose 16 products are separate
calls of the library.
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
    return speedup_result(
        lab, "figure6", TITLE, ALGORITHM, {b: winograd_layers(b) for b in BATCHES}
    )


def winograd_layers(batch: int) -> dict[str, Conv2d]:
    """Layers with 3 x 3 kernels, no stride."""
    found = layers(batch, first=False)
    return {k: op for k, op in found.items() if op.kernel == (3, 3) and op.stride == (1, 1)}
