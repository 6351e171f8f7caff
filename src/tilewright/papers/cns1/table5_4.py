"""Table 5.4: the worst that instruction misses cost recall."""

from __future__ import annotations

from dataclasses import replace

from tilewright.papers.cns1.cases import BEST, CASES, WORST, Case
from tilewright.papers.cns1.printed import Reading, printed_numbers, reproduced
from tilewright.papers.cns1.table5_3 import FIRST_BLOCK
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Conditions

TITLE = "worst penalty of instruction misses in recall, in percent"
_CHIPS = "4.5 Mb"


def run(lab: Lab) -> Result:
    """Worst lookups, as the text says."""
    ours = {case.name: penalty(case, WORST) for case in CASES}
    wanted = printed_numbers("table5_4", _CHIPS)
    values = {case.name: _tabulated_penalty(case) for case in CASES if case.name in wanted}
    readings = {_CHIPS: Reading("best lookups of 16K, I/O as in Table 5.3,", values)}
    return reproduced(lab, "table5_4", TITLE, ours, readings)


def penalty(case: Case, conditions: Conditions) -> float:
    """Percent of the run time."""
    worst = case.recall(replace(conditions, worst_instruction_misses=True))
    return 100 * worst.penalty_cycles / case.recall(conditions).total_cycles


def _tabulated_penalty(case: Case) -> float:
    """Penalty of the best lookups in percent, with the I/O of Table 5.3."""
    worst = case.recall(replace(BEST, worst_instruction_misses=True))
    less = worst.writing_penalty_cycles / 2
    return 100 * (worst.penalty_cycles - less) / (case.recall(BEST).total_cycles - FIRST_BLOCK)
