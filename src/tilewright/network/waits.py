"""Waits between the stages of a plan, which a group runs in one launch, and the time of passes.

In: for each stage the values that it reads and writes, and how many groups compute it. Out: where
all groups wait for each other, and the cycles before each stage by cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tilewright.machine.model import Groups, Machine

LAUNCH, BARRIER, MEETING = "launch", "barrier", "meeting"
"""The causes of the cycles before a stage: starting and joining the programs of a group, going on
from one to the next, waiting for the other groups.
"""


@dataclass(frozen=True)
class StageUse:
    """The values that one stage `reads`, the one that it `writes`, its number of groups, and those
    of the values that it reads `across` groups.
    """

    reads: tuple[int, ...]
    writes: int
    groups: int = 1
    across: tuple[int, ...] = ()


MOST_SPARED = 2
"""Meetings that one stage spares at most where the first group alone computes it: that before it,
and the next one. Later ones are due all the same: they wait for what came after the one before.
"""


def meetings(uses: Sequence[StageUse]) -> tuple[bool, ...]:
    """For each stage, whether all groups wait for each other before it: it reads what another group
    may have written since they met last, or overwrites what one may still read.

    Stages that write one value write different elements of it. What the first group alone computes
    it need not wait for: its cores meet behind every stage.
    """
    found: list[bool] = []
    read, written, several = set[int](), set[int](), False
    for use in uses:
        depends = not written.isdisjoint(use.reads) or use.writes in read
        together = use.groups > 1 or bool(use.across)
        meets = depends and (several or together)
        if meets:
            read, written, several = set(), set(), False
        read |= set(use.reads)
        written.add(use.writes)
        several |= together
        found.append(meets)
    return tuple(found)


def steps(uses: Sequence[StageUse]) -> tuple[int, ...]:
    """The step number of each stage: stages of one step may run at the same time on different
    groups, so what they use must not share memory.
    """
    if all(use.groups == 1 for use in uses):
        return tuple(range(len(uses)))
    return tuple(accumulate(map(int, meetings(uses))))


def next_cycles(groups: Groups, *, meets: bool) -> int:
    """Cycles from the end of one stage to the begin of the next."""
    return groups.barrier_cycles + (groups.meet_cycles if meets else 0)


def moving_cycles(
    machine: Machine, read_bytes: float, written_bytes: float, groups: int = 1
) -> float:
    """Cycles to read and write so many bytes at the engine's best, by so many groups together."""
    got = read_bytes / machine.dma.get.peak_bytes_per_second
    put = written_bytes / machine.dma.put.peak_bytes_per_second
    return (got + put) * machine.clock_hz / groups


def cycles_before(uses: Sequence[StageUse], groups: Groups) -> tuple[dict[str, int], ...]:
    """Nonzero cycles before each stage, by cause."""
    found = []
    for number, meets in enumerate(meetings(uses)):
        between = {BARRIER: groups.barrier_cycles, MEETING: groups.meet_cycles if meets else 0}
        own = between if number else {LAUNCH: groups.launch_cycles}
        found.append({cause: cycles for cause, cycles in own.items() if cycles})
    return tuple(found)
