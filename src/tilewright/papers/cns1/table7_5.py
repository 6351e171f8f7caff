"""Table 7.5: forward and backward passes of training, round by round."""

from __future__ import annotations

from tilewright.papers.cns1.cases import MODEL, WORST
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import LayerTimes

TITLE = "forward and backward passes of training, round by round"


def run(lab: Lab) -> Result:
    """Steps 2, 3 and 6-7; the table calls the last one step 5."""
    times = MODEL.training(WORST)
    backward = times.backward
    network = backward.sum_cycles - backward.sum_processor_cycles
    parts = {
        2: (times.forward.hidden.rounds, 0, _layer(times.forward.hidden)),
        3: (times.forward.outputs.rounds, 1, _layer(times.forward.outputs)),
        6: (
            backward.rounds,
            1,
            (
                backward.local_cycles,
                backward.scaling_cycles,
                backward.sum_processor_cycles,
                network,
            ),
        ),
    }
    ours: dict[str, float] = {}
    for step, (rounds, visible, (product, after, processor, wire)) in parts.items():
        for unit, count in (("a round", 1), ("in all", rounds)):
            name = f"step {step}, {unit}"
            ours[f"{name}: product"] = count * product
            ours[f"{name}: sigmoid or scaling"] = count * after
            ours[f"{name}: processor of the sums"] = count * processor
            ours[f"{name}: network hidden"] = wire * (count if count == 1 else count - visible)
        ours[f"step {step}, in all: network visible"] = visible * wire
    return reproduced(lab, "table7_5", TITLE, ours)


def _layer(layer: LayerTimes) -> tuple[int, int, int, int]:
    return (
        layer.product_cycles,
        layer.sigmoid_cycles,
        layer.sum_processor_cycles,
        layer.sum_network_cycles,
    )
