"""Table 7.4: run time of training under model conditions, step by step."""

from __future__ import annotations

from tilewright.papers.cns1.cases import BEST, MODEL
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result

TITLE = "run time of training, step by step"


def run(lab: Lab) -> Result:
    """Cycles and percent; the text says worst conditions, the numbers are those of best ones."""
    ours = step_cycles()
    shares = {f"{name}: percent": 100 * cycles / ours["total"] for name, cycles in ours.items()}
    return reproduced(lab, "table7_4", TITLE, ours | shares)


def step_cycles() -> dict[str, float]:
    """Cycles of each step, and the total, by the names of the table."""
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
