"""Table 5.1: products and global sums of recall under model conditions."""

from __future__ import annotations

from tilewright.papers.cns1.cases import BEST, MODEL
from tilewright.papers.cns1.printed import Reading, reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result

TITLE = "products and global sums of recall"
_HIDDEN = "network hidden"


def run(lab: Lab) -> Result:
    """Each step by round and in all; the last sums of step 3 have nothing to hide behind."""
    forward = MODEL.recall(BEST).forward
    ours: dict[str, float] = {}
    whole: dict[str, float] = {}
    for step, layer, visible in ((2, forward.hidden, 0), (3, forward.outputs, 1)):
        network = layer.sum_network_cycles
        for unit, rounds in (("a round", 1), ("in all", layer.rounds)):
            name = f"step {step}, {unit}"
            ours[f"{name}: product"] = rounds * layer.product_cycles
            ours[f"{name}: processor of the sums"] = rounds * layer.sum_processor_cycles
            whole[f"{name}: {_HIDDEN}"] = network * rounds
            ours[f"{name}: {_HIDDEN}"] = network * (rounds - visible if rounds > 1 else 1)
        ours[f"step {step}, in all: network visible"] = visible * network
    notes = (
        "the formulas of step 2 and 3 print 40 log p for the processor's part; the table has four"
        " vectors, 160 log p",
    )
    readings = {_HIDDEN: Reading("counting the visible round as well", whole)}
    return reproduced(lab, "table5_1", TITLE, ours, readings, notes=notes)
