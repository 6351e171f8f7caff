"""Waits between the stages of a plan, which a group runs in one launch, and the time of passes.

In: for each stage the values it reads and writes, and how many groups compute it. Out: where all
groups meet, and the cycles before each stage by cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tilewright.machine.model import Groups, Machine

LAUNCH, BARRIER, MEETING = "launch", "barrier", "meeting"
"""Causes of the cycles before a stage: starting and joining a group's programs, the barrier between
successive programs, meeting the other groups.
"""


@dataclass(frozen=True)
class StageUse:
    """The values that one stage `reads` and `writes`, the number of its groups, and the values
    among `reads` that other groups own (`across`).
    """

    reads: tuple[int, ...]
    writes: int
    groups: int = 1
    across: tuple[int, ...] = ()


MOST_SPARED = 2
"""Most meetings saved by one stage that the first group computes alone: the one before it and the
next. Later ones are due all the same: they wait for what came after the one before.
"""


def meetings(uses: Sequence[StageUse]) -> tuple[bool, ...]:
    """For each stage, True if all groups meet before it: it reads what another group may have
    written since the last meeting, or overwrites what one may still read.

    Stages that write one value write different elements of it. A value that only the first group
    computes needs no meeting before that group reads it: its cores meet after every stage.
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
    """The step number of each stage. Stages of one step may run at the same time on different
    groups, so the values they use must not share memory.
    """
    if all(use.groups == 1 for use in uses):
        return tuple(range(len(uses)))
    return tuple(accumulate(map(int, meetings(uses))))


def next_cycles(groups: Groups, *, meets: bool) -> int:
    """Cycles from the end of one stage to the start of the next."""
    return groups.barrier_cycles + (groups.meet_cycles if meets else 0)


def moving_cycles(
    machine: Machine, read_bytes: float, written_bytes: float, groups: int = 1
) -> float:
    """Cycles to read and write so many bytes at the engines' peak, by `groups` groups together."""
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
