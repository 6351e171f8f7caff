"""Table 7.1: performance of training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.machine.model import Leaf
from tilewright.papers.cns1.cases import (
    BEST,
    CASES,
    SHAPES,
    SHORT_FETCHES,
    SLOW_MISSES,
    SMALL_LINES,
    WORST,
    Case,
    training_peak,
    training_rate,
    training_share,
)
from tilewright.papers.cns1.printed import Reading, reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Conditions
from tilewright.targets.cns1.timing.memory import refresh_factor

TITLE = "performance of training"
_BEST_MISSES = "best instruction misses"


def run(lab: Lab) -> Result:
    """The text says worst instruction misses and lookups; the rates are those of best misses."""
    worst = replace(WORST, worst_instruction_misses=True)
    ours: dict[str, float] = {}
    readings: dict[str, list[Reading]] = {}
    for case in CASES:
        ours[f"{case.name}: rate"] = rate = rate_of(case, worst)
        ours[f"{case.name}: share"] = training_share(case, rate)
        found = list(_readings(case))
        readings[f"{case.name}: rate"] = found
        readings[f"{case.name}: share"] = [
            Reading(reading.text, training_share(case, reading.value)) for reading in found
        ]
    for nodes in (128, 1024):
        network = next(network for count, network in SHAPES if count == nodes)
        ours[f"peak of {nodes} nodes"] = training_peak(Case(nodes, network, "4.5 Mb"))
    return reproduced(lab, "table7_1", TITLE, ours, readings)


def rate_of(case: Case, conditions: Conditions, changes: dict[str, Leaf] | None = None) -> float:
    """Giga connection updates per second."""
    return training_rate(case, case.training(conditions, changes).total_cycles)


def _readings(case: Case) -> list[Reading]:
    found = [
        Reading(_BEST_MISSES, rate_of(case, WORST)),
        Reading(f"{_BEST_MISSES} and lookups", rate_of(case, BEST)),
    ]
    if case.chips == "18 Mb":
        for text, changes in (
            ("clean misses as long as dirty ones", SLOW_MISSES),
            ("open lines of 1 KB", SMALL_LINES),
        ):
            for lookups, conditions in (("", WORST), (" and lookups", BEST)):
                rate = rate_of(case, conditions, changes)
                found.append(Reading(f"{_BEST_MISSES}{lookups}, {text}", rate))
    return [*found, *_supposed(case)]


def _supposed(case: Case) -> Iterator[Reading]:
    """What a search over conditions, lines, misses, refreshes and parts of the penalty found."""
    refreshes = refresh_factor(case.machine())
    for text, changes in (("", None), (", clean misses as long as dirty ones", SLOW_MISSES)):
        rate = rate_of(case, WORST, changes) / refreshes
        yield Reading(f"perhaps {_BEST_MISSES} with refreshes{text}", rate)
    rate = rate_of(case, replace(BEST, worst_instruction_misses=True), SHORT_FETCHES)
    text = "perhaps best lookups and instruction misses of 20 cycles, the least of section 2.1.2,"
    yield Reading(text, rate)
