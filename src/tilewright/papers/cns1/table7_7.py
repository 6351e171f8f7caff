"""Table 7.7: what the main procedures of training consist of."""

from __future__ import annotations

from tilewright.papers.cns1.cases import BEST, MODEL
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.cns1.table7_6 import procedures
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.memory import WORD_BYTES, read_cycles

TITLE = "what the main procedures of training consist of, in percent"


def run(lab: Lab) -> Result:
    """Shares of the whole run, and of the procedure's own time."""
    times = MODEL.training(BEST)
    hidden, outputs, backward = times.forward.hidden, times.forward.outputs, times.backward
    network = backward.sum_cycles - backward.sum_processor_cycles
    wholes: dict[str, tuple[float, float]] = {
        "feedforward A": (times.forward.hidden_cycles, hidden.rounds * hidden.sum_network_cycles),
        "feedforward B": (
            times.forward.outputs_cycles,
            (outputs.rounds - 1) * outputs.sum_network_cycles,
        ),
        "backpropagation B": (backward.total_cycles, (backward.rounds - 1) * network),
        "update A": (times.update_hidden_cycles, 0),
        "update B": (times.update_outputs_cycles, 0),
    }
    parameter = read_cycles(MODEL.machine(), WORD_BYTES).dirty_miss + 2
    ours: dict[str, float] = {}
    for name, (arithmetic, products) in procedures().items():
        whole, transfer = wholes[name]
        ours[f"{name}: run time"] = 100 * whole / times.total_cycles
        ours[f"{name}: hidden transfer"] = 100 * transfer / whole
        ours[f"{name}: computation"] = 100 * arithmetic / products
        accesses = products - parameter if name.startswith("update") else products
        ours[f"{name}: memory accesses"] = 100 * accesses / whole
    return reproduced(lab, "table7_7", TITLE, ours)
