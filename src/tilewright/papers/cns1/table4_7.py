"""Table 4.7: what instruction misses delay the sigmoid lookup of four vectors."""

from __future__ import annotations

from tilewright.machine import load_machine
from tilewright.papers.cns1.cases import CHIPS
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.sections import Rdram
from tilewright.targets.cns1.timing.memory import ELEMENT_BYTES, read_cycles

TITLE = "delay of the sigmoid lookup by instruction misses"


def run(lab: Lab) -> Result:
    """One evicted part of the table is restored at best, one for each port at worst."""
    ours: dict[str, float] = {}
    for chips, suffix in CHIPS.items():
        machine = load_machine(f"cns1-128{suffix}")
        read, ports = read_cycles(machine, ELEMENT_BYTES), machine.section(Rdram).ports
        for pattern, restored in (("best", 1), ("worst", ports)):
            ours[f"{chips}, {pattern} access pattern"] = restored * (read.clean_miss - read.hit)
    return reproduced(lab, "table4_7", TITLE, ours, kind="exact")
