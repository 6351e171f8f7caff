"""swATOP Figure 5: implicit convolution against swDNN's plans, layer by layer of three networks.

The plans run with the matrix product of the public swDNN kernels; beside that the averages with our
product in both. The first layer of each network is left out, as in the paper: its channels are too
few. At batch 1 swDNN has no plan; there the rows say what the tuned schedule reaches.
"""

from __future__ import annotations

from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings
from tilewright.papers.swatop.layers import layers, speedup_figure, speedup_result
from tilewright.papers.swatop.listings import BATCHES
from tilewright.papers.swatop.manual import IMPLICIT
from tilewright.papers.swatop.schedules import our_product, setting

TITLE = "implicit convolution against swDNN's plans, layers of three networks"
draw = speedup_figure


def run(lab: Lab) -> Findings:
    """40 layers at each batch."""
    cases = {batch: layers(batch, first=False) for batch in BATCHES}
    product = (
        f"the tuned schedules run with {our_product(setting(lab))}; swDNN's plans with that of the"
        " public kernels, which takes 19 and a taken branch"
    )
    notes = (product,) if lab.quick else (product, _ALIKE)
    return speedup_result(
        lab, "figure5", IMPLICIT, cases, alike_is="our matrix product in both", notes=notes
    )


_ALIKE = (
    "with our matrix product in both the averages are within a tenth of the published ones:"
    " the rest of the speedup is the product's"
)
"""Holds of all layers, not of a few of them."""
