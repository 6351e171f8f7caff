"""Access times of the RDRAM in cycles (ICSI TR-93-046, sections 2.1.3, 2.1.4 and Table 4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tilewright.machine import Machine
from tilewright.targets.cns1.sections import Rdram

VECTOR_BYTES = 32
"""Bytes that one port delivers of a vector of 32 weights, which two ports share."""
WORD_BYTES = 4
ELEMENT_BYTES = 1


@dataclass(frozen=True)
class AccessCycles:
    """Cycles of one access through one port: r_h, r_m,/d, r_m,d of the report, or those of w."""

    hit: int
    clean_miss: int
    dirty_miss: int


def read_cycles(machine: Machine, size_bytes: int) -> AccessCycles:
    """Reading `size_bytes`: r_h, r_m,/d and r_m,d."""
    rdram = machine.section(Rdram)
    times = (rdram.read_hit_ns, rdram.read_clean_miss_ns, rdram.read_dirty_miss_ns)
    return AccessCycles(*(_cycles(machine, time, size_bytes) for time in times))


def write_cycles(machine: Machine, size_bytes: int) -> AccessCycles:
    """Writing `size_bytes`: w_h, w_m,/d and w_m,d."""
    rdram = machine.section(Rdram)
    times = (rdram.write_hit_ns, rdram.write_clean_miss_ns, rdram.write_dirty_miss_ns)
    return AccessCycles(*(_cycles(machine, time, size_bytes) for time in times))


def refresh_factor(machine: Machine) -> float:
    """tau_ref: the most by which refreshes prolong a run (section 2.1.4)."""
    rdram = machine.section(Rdram)
    return rdram.refresh_interval_ns / (rdram.refresh_interval_ns - rdram.refresh_ns)


def _cycles(machine: Machine, access_ns: float, size_bytes: int) -> int:
    nanoseconds = access_ns + machine.section(Rdram).byte_ns * size_bytes
    return ceil(nanoseconds * machine.clock_hz / 1e9)
