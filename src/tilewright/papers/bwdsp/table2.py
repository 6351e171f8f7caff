"""Table 2: the strategies compared: what they divide, where they hold, what padding costs."""

from __future__ import annotations

from tilewright.papers.bwdsp.network import (
    BASELINE,
    CORES,
    OPTIMISED,
    image_layers,
    padded_reads,
    vgg16,
)
from tilewright.papers.lab import Lab
from tilewright.papers.model import Findings, Row, compare

TITLE = "ranges of the equations, and values of padding"


def run(lab: Lab) -> Findings:
    """Which equation each convolution takes, and its padding by Table 2's term and counted."""
    rows: list[Row] = []
    counted = {
        strategy: {name: padded - real for name, padded, real in padded_reads(strategy)}
        for strategy in (BASELINE, OPTIMISED)
    }
    for layer in image_layers(vgg16()):
        if (conv := layer.op.convolution) is None:
            continue
        large = conv.out_height >= 2 * CORES
        rows.append(
            compare(f"{layer.name}: equation", None, 4 if large else 5, "exact",
                    note=f"O_H = {conv.out_height}, 2 N = {2 * CORES}")
        )  # fmt: skip
        term = 4 * CORES * conv.out_channels * (conv.kernel[1] - 1)
        rows.append(
            compare(f"{layer.name}: padding", term, counted[BASELINE][layer.name], "exact",
                    note="4 N C (F_W - 1) against zeros that the cores' regions have under Eq. 3",
                    unit="values")
        )  # fmt: skip
    outputs = sum(counted[OPTIMISED].values())
    return Findings(
        rows=tuple(rows),
        summary={
            "zeros under Eqs. 4 and 5, all layers": outputs,
            "zeros under Eq. 3, all layers": sum(counted[BASELINE].values()),
        },
        notes=(
            "C is the output's channels (Table 1), though what moves is input; the factor 4 may be"
            " bytes, sides, or the rows of a tile: the text does not say",
            "no strategy has to move zeros: each core knows where the image ends",
        ),
    )
