"""Table 7.6: run times of training beside the cycles that its arithmetic needs."""

from __future__ import annotations

from tilewright.papers.cns1.cases import BEST, MODEL
from tilewright.papers.cns1.printed import Reading, reproduced
from tilewright.papers.cns1.table7_4 import PRINTED_BACKWARD
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.layers import on_each_node

TITLE = "run times of training beside the cycles that its arithmetic needs"
PRINTED = {"feedforward B": 121248, "backpropagation B": PRINTED_BACKWARD, "update A": 407860}
"""Run times that the formulas do not give: Tables 7.4 and 7.5 say why."""


def run(lab: Lab) -> Result:
    """Eight multiply-accumulates a cycle against the time of products and updates."""
    ours: dict[str, float] = {}
    readings: dict[str, list[Reading]] = {}
    for name, (arithmetic, cycles) in procedures().items():
        ours[f"{name}: arithmetic"] = arithmetic
        ours[f"{name}: run time"] = cycles
        ours[f"{name}: overhead"] = _overhead(arithmetic, cycles)
        if name in PRINTED:
            printed = PRINTED[name]
            readings[f"{name}: run time"] = [Reading("that of Tables 7.4 and 7.5", printed)]
            share = _overhead(arithmetic, printed)
            readings[f"{name}: overhead"] = [Reading("that run time", share)]
    rounds = 32 * (512 * 14 // 2 - 8 * 14 + 602) + 8 * 13
    readings["backpropagation B: overhead"].append(
        Reading(
            f"32 (n_po r_h / 2 - 8 r_h + 602) + 8 * 13 = {rounds} cycles",
            _overhead(procedures()["backpropagation B"][0], rounds),
        )
    )
    return reproduced(lab, "table7_6", TITLE, ours, readings)


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


def _overhead(arithmetic: float, cycles: float) -> float:
    return 100 * (1 - arithmetic / cycles)
