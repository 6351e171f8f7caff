"""Table 7.1: performance of training."""

from __future__ import annotations

from dataclasses import replace

from tilewright.papers.cns1.cases import (
    CASES,
    SHAPES,
    WORST,
    Case,
    training_peak,
    training_rate,
    training_share,
)
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.forward import Conditions

TITLE = "performance of training"


def run(lab: Lab) -> Result:
    """Worst instruction misses and lookups, as the text says."""
    worst = replace(WORST, worst_instruction_misses=True)
    ours: dict[str, float] = {}
    for case in CASES:
        ours[f"{case.name}: rate"] = rate = rate_of(case, worst)
        ours[f"{case.name}: share"] = training_share(case, rate)
    for nodes in (128, 1024):
        network = next(network for count, network in SHAPES if count == nodes)
        ours[f"peak of {nodes} nodes"] = training_peak(Case(nodes, network, "4.5 Mb"))
    notes = (
        "the printed rates are near those of best instruction misses, which the report's other"
        " numbers on training have",
    )
    return reproduced(lab, "table7_1", TITLE, ours, notes=notes)


def rate_of(case: Case, conditions: Conditions) -> float:
    """Giga connection updates per second."""
    return training_rate(case, case.training(conditions).total_cycles)
