"""Table 4.5: reading 32 bytes through one Rambus port."""

from __future__ import annotations

from tilewright.machine import load_machine
from tilewright.papers.cns1.cases import CHIPS
from tilewright.papers.cns1.printed import reproduced
from tilewright.papers.lab import Lab
from tilewright.papers.model import Result
from tilewright.targets.cns1.sections import Rdram
from tilewright.targets.cns1.timing.memory import VECTOR_BYTES, read_cycles

TITLE = "reading 32 bytes through one port of the RDRAM"
_KINDS = ("hit", "clean miss", "dirty miss")


def run(lab: Lab) -> Result:
    """Both sizes of chips, in nanoseconds and in cycles."""
    ours: dict[str, float] = {}
    for chips, suffix in CHIPS.items():
        machine = load_machine(f"cns1-128{suffix}")
        rdram, cycles = machine.section(Rdram), read_cycles(machine, VECTOR_BYTES)
        times = (rdram.read_hit_ns, rdram.read_clean_miss_ns, rdram.read_dirty_miss_ns)
        counts = (cycles.hit, cycles.clean_miss, cycles.dirty_miss)
        for kind, nanoseconds, count in zip(_KINDS, times, counts, strict=True):
            ours[f"{chips} {kind} [ns]"] = nanoseconds + VECTOR_BYTES * rdram.byte_ns
            ours[f"{chips} {kind} [cycles]"] = count
    return reproduced(lab, "table4_5", TITLE, ours, kind="exact")
