"""Table 5.5: performance of recall."""

from __future__ import annotations

from tilewright.machine import load_machine
from tilewright.machine.model import Leaf
from tilewright.papers.cns1.cases import (
    CASES,
    SHAPES,
    SLOW_MISSES,
    SMALL_LINES,
    WORST,
    Case,
    recall_rate,
    recall_share,
)
from tilewright.papers.cns1.printed import Reading, reproduced
from tilewright.papers.cns1.table5_3 import FIRST_BLOCK
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.timing.memory import refresh_factor

TITLE = "performance of recall"
_VARIANTS: tuple[tuple[str, dict[str, Leaf]], ...] = (
    ("open lines of 1 KB", SMALL_LINES),
    ("clean misses as long as dirty ones", SLOW_MISSES),
)


def run(lab: Lab) -> Result:
    """Rates and shares of the peak, worst lookups and refreshes, best instruction misses."""
    ours: dict[str, float] = {}
    readings: dict[str, list[Reading]] = {}
    for case in CASES:
        times = _rates(case)
        ours[f"{case.name}: rate"] = rate = times.pop("")
        ours[f"{case.name}: share"] = recall_share(case, rate)
        readings[f"{case.name}: rate"] = [Reading(text, value) for text, value in times.items()]
        readings[f"{case.name}: share"] = [
            Reading(text, recall_share(case, value)) for text, value in times.items()
        ]
        twice = recall_share(case, rate / refresh_factor(case.machine()))
        readings[f"{case.name}: share"].append(Reading("perhaps refreshes counted twice", twice))
    for nodes, network in SHAPES:
        connections = Case(nodes, network, "4.5 Mb").layers.connections
        ours[f"{network} on {nodes} nodes: K connections a node"] = connections / nodes / 1024
    return reproduced(lab, "table5_5", TITLE, ours, readings, notes=tuple(_too_large()))


def rate_of(case: Case, changes: dict[str, Leaf] | None = None, less: float = 0) -> float:
    """Giga connections per second under the table's conditions, with `less` cycles."""
    return recall_rate(case, case.recall(WORST, changes).total_cycles - less)


def _rates(case: Case) -> dict[str, float]:
    found = {"": rate_of(case), "I/O as in Table 5.3": rate_of(case, less=FIRST_BLOCK)}
    if case.chips == "18 Mb":
        for text, changes in _VARIANTS:
            found[text] = rate_of(case, changes)
            found[f"{text}, I/O as in Table 5.3"] = rate_of(case, changes, FIRST_BLOCK)
    return found


def _too_large() -> list[str]:
    """Networks whose weights a node cannot hold: the report does not say so."""
    machine, found = load_machine("cns1-128"), []
    for nodes, network in SHAPES:
        weights = 2 * Case(nodes, network, "4.5 Mb").layers.connections // nodes
        if weights > machine.main.capacity_bytes:
            found.append(
                f"{network} on {nodes} nodes: {weights >> 20} MB of weights do not fit the"
                f" {machine.main.capacity_bytes >> 20} MB that 16 chips of 4.5 Mb hold"
            )
    return found
