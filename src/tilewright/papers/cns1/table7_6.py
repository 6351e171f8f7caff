"""Table 7.6: run times of training beside the cycles that its arithmetic needs."""

from __future__ import annotations

from tilewright.papers.cns1.cases import BEST, MODEL
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.layers import on_each_node

TITLE = "run times of training beside the cycles that its arithmetic needs"


def run(lab: Lab) -> Result:
    """Eight multiply-accumulates a cycle against the time of products and updates."""
    ours: dict[str, float] = {}
    for name, (arithmetic, cycles) in procedures().items():
        ours[f"{name}: arithmetic"] = arithmetic
        ours[f"{name}: run time"] = cycles
        ours[f"{name}: overhead"] = 100 * (1 - arithmetic / cycles)
    return reproduced(lab, "table7_6", TITLE, ours)


def procedures() -> dict[str, tuple[float, float]]:
    """(cycles of the arithmetic, run time of products or update) by name."""
    times, machine = MODEL.training(BEST), MODEL.machine()
    local, lanes = on_each_node(machine, MODEL.layers), machine.core.of("i16").vector_lanes
    large = local.inputs * local.hidden / lanes
    small = local.hidden * local.outputs / lanes
    hidden, outputs, backward = times.forward.hidden, times.forward.outputs, times.backward
    return {
        "feedforward A": (large, hidden.rounds * hidden.product_cycles),
        "feedforward B": (small, outputs.rounds * outputs.product_cycles),
        "backpropagation B": (small, backward.rounds * backward.local_cycles),
        "update A": (large, times.update_hidden_cycles),
        "update B": (small, times.update_outputs_cycles),
    }
