"""Table 5.2: sigmoid computation of recall under model conditions."""

from __future__ import annotations

from tilewright.papers.cns1.cases import MODEL
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Conditions

TITLE = "sigmoid computation of recall"


def run(lab: Lab) -> Result:
    """Both sizes of the table, best and worst access patterns, and the products beside."""
    ours: dict[str, float] = {}
    for pattern in ("best", "worst"):
        for size in (16, 32):
            forward = MODEL.recall(Conditions(size << 10, pattern == "worst")).forward
            for step, layer in ((2, forward.hidden), (3, forward.outputs)):
                name = f"step {step}, {pattern} pattern, {size}K"
                ours[name] = layer.rounds * layer.sigmoid_cycles
                ours[f"step {step}, product"] = layer.rounds * layer.product_cycles
    return reproduced(lab, "table5_2", TITLE, ours)
