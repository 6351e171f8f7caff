"""What the timing of a kernel depends on at one moment: the clock, the DMA engine, the slots.

A `State` moves with the run; its `snapshot` is a value relative to the clock, so that two moments
with equal snapshots have equal futures. That is what makes skipping exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tilewright.simulate.trace import StallCause

Slot: TypeAlias = tuple[str, int]
WHOLE = 0
"""The content of a slot whose every element counts as data."""


class Pending(NamedTuple):
    """The outstanding transfers of one slot: when the last is done, which move started it.

    They all go one way: a get has its slot to itself.
    """

    ready_cycle: int
    move: int


Snapshot: TypeAlias = tuple[
    tuple[tuple[int, int], ...],
    tuple[tuple[Slot, Pending], ...],
    tuple[tuple[Slot, int], ...],
]


@dataclass
class State:
    """The clock of the cores, the engine's busy intervals, the slots' transfers and contents.

    `contents` numbers what a slot that is in use holds (which part of it is data, see
    `kernel_execute`).
    """

    now: int = 0
    intervals: list[tuple[int, int]] = field(default_factory=list)
    pending: dict[Slot, Pending] = field(default_factory=dict)
    contents: dict[Slot, int] = field(default_factory=dict)

    def serve(self, earliest_cycle: int, service_cycles: int) -> int:
        """Queue a request at the engine, first come first served; returns when its service
        starts."""
        start = max(earliest_cycle, self.intervals[-1][1]) if self.intervals else earliest_cycle
        if self.intervals and self.intervals[-1][1] == start:
            self.intervals[-1] = (self.intervals[-1][0], start + service_cycles)
        else:
            self.intervals.append((start, start + service_cycles))
        return start

    def advance(self, to_cycle: int) -> list[tuple[StallCause, int, int]]:
        """Move the clock to `to_cycle`; returns (cause, start, cycles) pieces in order of time."""
        pieces: list[tuple[StallCause, int, int]] = []
        for start, end in self.intervals:
            low, high = max(start, self.now), min(end, to_cycle)
            if low < high:
                if self.now < low:
                    pieces.append(("latency", self.now, low - self.now))
                pieces.append(("bandwidth", low, high - low))
                self.now = high
        if self.now < to_cycle:
            pieces.append(("latency", self.now, to_cycle - self.now))
        self.now = max(self.now, to_cycle)
        self.forget()
        return pieces

    def forget(self) -> None:
        """Drop the engine's intervals that lie in the past."""
        self.intervals = [i for i in self.intervals if i[1] > self.now]

    def snapshot(self) -> Snapshot:
        """This state relative to its clock: equal snapshots behave equally from here on."""
        now = self.now
        intervals = tuple((max(a - now, 0), b - now) for a, b in self.intervals if b > now)
        pending = sorted(
            (slot, Pending(max(p.ready_cycle - now, 0), p.move)) for slot, p in self.pending.items()
        )
        return intervals, tuple(pending), tuple(sorted(self.contents.items()))

    def restore(self, snapshot: Snapshot, now: int) -> None:
        """Become the state that `snapshot` describes, at cycle `now`."""
        intervals, pending, contents = snapshot
        self.now = now
        self.intervals = [(a + now, b + now) for a, b in intervals]
        self.pending = {slot: Pending(p.ready_cycle + now, p.move) for slot, p in pending}
        self.contents = dict(contents)
