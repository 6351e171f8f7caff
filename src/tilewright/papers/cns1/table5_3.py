"""Table 5.3: run time of recall under model conditions."""

from __future__ import annotations

from dataclasses import replace

from tilewright.papers.cns1.cases import BEST, MODEL, WORST
from tilewright.papers.cns1.printed import Reading, printed_numbers, reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result

TITLE = "run time of recall"
FIRST_BLOCK = 138 + 14
"""Cycles of one block on the way and of storing the last, which Table 5.3's I/O does not have."""
_MISS = 44
_TOTAL_SHORT = 14


def run(lab: Lab) -> Result:
    """Best and worst instruction misses with best and worst lookups."""
    ours: dict[str, float] = {}
    moved: dict[str, float] = {}
    tabulated: dict[str, float] = {}
    for misses in ("best", "worst"):
        for lookups, conditions in (("best", BEST), ("worst", WORST)):
            times = MODEL.recall(replace(conditions, worst_instruction_misses=misses == "worst"))
            name = f"{misses} instruction misses, {lookups} lookups"
            ours[f"{name}: step 2"] = times.hidden_cycles
            ours[f"{name}: step 3"] = times.outputs_cycles
            ours[f"{name}: I/O"] = times.io_cycles
            ours[f"{name}: overhead"] = times.overhead_cycles
            ours[f"{name}: total"] = times.total_cycles
            miss = _MISS if misses == "worst" else 0
            moved[f"{name}: step 3"] = times.outputs_cycles + miss
            less = FIRST_BLOCK + miss + times.writing_penalty_cycles / 2
            tabulated[f"{name}: I/O"] = times.io_cycles - less
    readings = {
        "step 3": Reading("the last miss of the I/O, 44 cycles, counted here", moved),
        "I/O": Reading(
            "without one block and the last store, 138 + 14, and half of the misses in step 4"
            " (44/64 n_po in the text of 4.3.1), the last miss counted in step 3,",
            tabulated,
        ),
        "total": Reading(f"the sum of the printed parts less {_TOTAL_SHORT}", _sums()),
    }
    return reproduced(lab, "table5_3", TITLE, ours, readings)


def _sums() -> dict[str, float]:
    """Totals of the parts as they are printed."""
    found: dict[str, float] = {}
    for name, cycles in printed_numbers("table5_3").items():
        total = f"{name.rpartition(': ')[0]}: total"
        found[total] = found.get(total, -_TOTAL_SHORT) + (0 if name == total else cycles)
    return found
