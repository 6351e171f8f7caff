"""Table 7.4: run time of training under model conditions, step by step."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.papers.cns1.cases import BEST, MODEL
from tilewright.papers.cns1.printed import Reading, reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result

TITLE = "run time of training, step by step"
PRINTED_TOTAL = 1156187
"""Of best lookups in a table of 16K and best instruction misses."""
PRINTED_BACKWARD = 32 * (512 * 14 // 2 - 8 * 14 + 600) + 8 * 13
"""All rounds of T_lc with 600 for 602 and the eight misses of a round charged once."""


def run(lab: Lab) -> Result:
    """Cycles and percent; the text says worst conditions, the numbers are those of best ones."""
    ours = _steps()
    times = MODEL.training(BEST)
    outputs, backward = times.forward.outputs, times.backward
    local = backward.rounds * backward.local_cycles
    preload = 6 + 16 * 14 + 4 + 4 * 13
    readings = {
        "1 I/O": Reading("perhaps twelve blocks 139 cycles apart, + 12,", ours["1 I/O"] + 12),
        "3 feedforward B": Reading(
            "T_MVM without r_m,d = 27, - 8 * 27,", ours["3 feedforward B"] - 27 * outputs.rounds
        ),
        "6-7 backpropagation": Reading(
            "products of 32 (n_po r_h / 2 - 8 r_h + 600) + 8 * 13",
            ours["6-7 backpropagation"] - local + PRINTED_BACKWARD,
        ),
        "9 update A": Reading(
            "T_preload = 6 + 224 + 4 + 13 max(4, n_ph / 2 l_RDC)", 407574 + preload
        ),
        "total": Reading("the sum of the printed steps", PRINTED_TOTAL),
    }
    found = {name: [reading] for name, reading in readings.items()}
    return reproduced(lab, "table7_4", TITLE, ours | _shares(ours), found)


def formula_total() -> float:
    """The same total by the formulas."""
    return _steps()["total"]


def _steps() -> dict[str, float]:
    times = MODEL.training(BEST)
    return {
        "1 I/O": times.reading_cycles,
        "2 feedforward A": times.forward.hidden_cycles,
        "3 feedforward B": times.forward.outputs_cycles,
        "5 error": times.error_cycles,
        "6-7 backpropagation": times.backward.total_cycles,
        "8 update B": times.update_outputs_cycles,
        "9 update A": times.update_hidden_cycles,
        "overhead": times.overhead_cycles,
        "total": times.total_cycles,
    }


def _shares(steps: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}: percent": 100 * cycles / steps["total"] for name, cycles in steps.items()}
