"""Table 5.4: the worst that instruction misses cost recall."""

from __future__ import annotations

from dataclasses import replace

from tilewright.machine.model import Leaf
from tilewright.papers.cns1.cases import BEST, CASES, SMALL_LINES, WORST, Case
from tilewright.papers.cns1.printed import Reading, reproduced
from tilewright.papers.cns1.table5_3 import FIRST_BLOCK
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Conditions

TITLE = "worst penalty of instruction misses in recall, in percent"


def run(lab: Lab) -> Result:
    """The text says worst lookups; the numbers are those of best ones."""
    ours = {case.name: penalty(case, WORST) for case in CASES}
    readings = {case.name: list(_readings(case)) for case in CASES}
    return reproduced(lab, "table5_4", TITLE, ours, readings)


def penalty(
    case: Case,
    conditions: Conditions,
    changes: dict[str, Leaf] | None = None,
    *,
    tabulated: bool = False,
) -> float:
    """Percent of the run time; `tabulated`: with the I/O that Table 5.3 has."""
    best = case.recall(conditions, changes)
    worst = case.recall(replace(conditions, worst_instruction_misses=True), changes)
    if not tabulated:
        return 100 * worst.penalty_cycles / best.total_cycles
    step4 = worst.writing_penalty_cycles / 2
    return 100 * (worst.penalty_cycles - step4) / (best.total_cycles - FIRST_BLOCK)


def _readings(case: Case) -> list[Reading]:
    same = "best lookups of 16K"
    found = [
        Reading(same, penalty(case, BEST)),
        Reading(f"{same}, I/O as in Table 5.3", penalty(case, BEST, tabulated=True)),
    ]
    if case.chips == "18 Mb":
        lines = f"{same}, open lines of 1 KB"
        found += [
            Reading(lines, penalty(case, BEST, SMALL_LINES)),
            Reading(
                f"{lines}, I/O as in Table 5.3",
                penalty(case, BEST, SMALL_LINES, tabulated=True),
            ),
        ]
    return found
