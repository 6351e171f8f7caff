"""Table 7.3: the worst that instruction misses cost training."""

from __future__ import annotations

from dataclasses import replace

from tilewright.papers.cns1.cases import CASES, WORST, Case
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Conditions

TITLE = "worst penalty of instruction misses in training, in percent"


def run(lab: Lab) -> Result:
    """Worst lookups, as the section says of all its tables."""
    ours = {case.name: penalty(case, WORST) for case in CASES}
    return reproduced(lab, "table7_3", TITLE, ours)


def penalty(case: Case, conditions: Conditions) -> float:
    """Percent of the run time."""
    best = case.training(conditions)
    worst = case.training(replace(conditions, worst_instruction_misses=True))
    return 100 * worst.penalty_cycles / best.total_cycles
