"""Table 5.3: run time of recall under model conditions."""

from __future__ import annotations

from dataclasses import replace

from tilewright.papers.cns1.cases import BEST, MODEL, WORST
from tilewright.papers.cns1.printed import Reading, reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.recall import RecallTimes

TITLE = "run time of recall"
FIRST_BLOCK = 138 + 14
"""Cycles of one block on the way and of storing the last, which Table 5.3's I/O does not have."""
_MISS = 44
_TOTAL_SHORT = 14


def run(lab: Lab) -> Result:
    """Best and worst instruction misses with best and worst lookups."""
    ours: dict[str, float] = {}
    readings: dict[str, list[Reading]] = {}
    for misses in ("best", "worst"):
        for lookups, conditions in (("best", BEST), ("worst", WORST)):
            times = MODEL.recall(replace(conditions, worst_instruction_misses=misses == "worst"))
            name = f"{misses} instruction misses, {lookups} lookups"
            ours[f"{name}: step 2"] = times.hidden_cycles
            ours[f"{name}: step 3"] = times.outputs_cycles
            ours[f"{name}: I/O"] = times.io_cycles
            ours[f"{name}: overhead"] = times.overhead_cycles
            ours[f"{name}: total"] = times.total_cycles
            readings |= _readings(name, times, misses == "worst")
    return reproduced(
        lab,
        "table5_3",
        TITLE,
        ours,
        readings,
        notes=(
            f"every printed total is {_TOTAL_SHORT} below the sum of the printed parts",
            "the cycles of procedures and threads follow from this overhead and Table 7.4's: see"
            " the sources of runtime.* in the machine file",
        ),
    )


def _readings(name: str, times: RecallTimes, worst: bool) -> dict[str, list[Reading]]:
    moved = _MISS if worst else 0
    step4 = 5.5 / 8 * 512 if worst else 0.0
    io = times.io_cycles - FIRST_BLOCK - moved - step4
    parts = times.hidden_cycles + times.outputs_cycles + moved + io + times.overhead_cycles
    text = "one block and the last store left out, - 138 - 14,"
    if worst:
        text += " 44/64 n_po in step 4 as in the text of 4.3.1, and one miss charged to step 3"
    return {
        f"{name}: step 3": [Reading("one miss more, + 44,", times.outputs_cycles + moved)],
        f"{name}: I/O": [Reading(text, io)],
        f"{name}: total": [Reading("the sum of the printed parts less 14", parts - _TOTAL_SHORT)],
    }
