"""Table 5.5: performance of recall."""

from __future__ import annotations

from tilewright.machine import load_machine
from tilewright.papers.cns1.cases import CASES, SHAPES, WORST, Case, recall_rate, recall_share
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result

TITLE = "performance of recall"


def run(lab: Lab) -> Result:
    """Rates and shares of the peak, worst lookups and refreshes, best instruction misses."""
    ours: dict[str, float] = {}
    for case in CASES:
        ours[f"{case.name}: rate"] = rate = rate_of(case)
        ours[f"{case.name}: share"] = recall_share(case, rate)
    for nodes, network in SHAPES:
        connections = Case(nodes, network, "4.5 Mb").layers.connections
        ours[f"{network} on {nodes} nodes: K connections a node"] = connections / nodes / 1024
    return reproduced(lab, "table5_5", TITLE, ours, notes=tuple(_too_large()))


def rate_of(case: Case) -> float:
    """Giga connections per second under the table's conditions."""
    return recall_rate(case, case.recall(WORST).total_cycles)


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
