"""Table 7.3: the worst that instruction misses cost training."""

from __future__ import annotations

from dataclasses import replace

from tilewright.machine.model import Leaf
from tilewright.papers.cns1.cases import BEST, CASES, SLOW_MISSES, SMALL_LINES, WORST, Case
from tilewright.papers.cns1.printed import Reading, reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Conditions

TITLE = "worst penalty of instruction misses in training, in percent"


def run(lab: Lab) -> Result:
    """Worst lookups, as the section says of all its tables."""
    ours = {case.name: penalty(case, WORST) for case in CASES}
    readings = {case.name: list(_readings(case)) for case in CASES}
    return reproduced(lab, "table7_3", TITLE, ours, readings)


def penalty(case: Case, conditions: Conditions, changes: dict[str, Leaf] | None = None) -> float:
    """Percent of the run time."""
    best = case.training(conditions, changes)
    worst = case.training(replace(conditions, worst_instruction_misses=True), changes)
    return 100 * worst.penalty_cycles / best.total_cycles


def _readings(case: Case) -> list[Reading]:
    found = [Reading("best lookups of 16K", penalty(case, BEST))]
    if case.chips == "18 Mb":
        for text, changes in (
            ("open lines of 1 KB", SMALL_LINES),
            ("clean misses as long as dirty ones", SLOW_MISSES),
        ):
            found.append(Reading(text, penalty(case, WORST, changes)))
            found.append(Reading(f"{text}, best lookups", penalty(case, BEST, changes)))
    worst = case.training(replace(WORST, worst_instruction_misses=True)).penalty_cycles
    mixed = 100 * worst / case.training(BEST).total_cycles
    found.append(Reading("the penalty of worst lookups over the time of best ones", mixed))
    return found
