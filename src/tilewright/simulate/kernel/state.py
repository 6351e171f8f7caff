"""State that a kernel's timing depends on at one moment: the clock, the engines, the slots.

A `State` moves with the run; its `snapshot` is a value relative to the clock, so that two moments
with equal snapshots have equal futures. That is what makes skipping exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tilewright.ir.nodes import Direction
from tilewright.simulate.trace import StallCause

Slot: TypeAlias = tuple[str, int]
WHOLE = 0
"""The content of a slot whose every element counts as data."""


class Pending(NamedTuple):
    """The outstanding transfers of one slot: when the last is done, of the core that is served
    first and of the one that is served last, which move started it, in which queue.

    They all go one way: a get has its slot to itself.
    """

    first_ready_cycle: int
    ready_cycle: int
    move: int
    queue: str


@dataclass(frozen=True)
class Request:
    """A transfer as an engine sees it: which way it goes, to or from which of a core's memories."""

    space: str
    direction: Direction


@dataclass
class Queue:
    """State of one engine: its busy intervals that are not over, and its latest request."""

    intervals: list[tuple[int, int]] = field(default_factory=list)
    last: Request | None = None

    def snapshot(self, now: int) -> Busy:
        """This queue relative to the clock."""
        return tuple([(max(a - now, 0), b - now) for a, b in self.intervals if b > now]), self.last


Busy: TypeAlias = tuple[tuple[tuple[int, int], ...], Request | None]
Snapshot: TypeAlias = tuple[
    int,
    tuple[tuple[str, Busy], ...],
    tuple[tuple[Slot, Pending], ...],
    tuple[tuple[Slot, int], ...],
    int,
]


@dataclass
class State:
    """The clocks of the cores, the engines' queues, the slots' transfers and contents.

    The core that is served last is at `now`, the one that is served first, which goes on before the
    others, at `first`.

    `contents` numbers what a slot that is in use holds (which part of it is data, see
    `kernel_execute`), `code` is the number of what the instruction cache holds.
    """

    now: int = 0
    first: int = 0
    queues: dict[str, Queue] = field(default_factory=dict)
    pending: dict[Slot, Pending] = field(default_factory=dict)
    contents: dict[Slot, int] = field(default_factory=dict)
    code: int = 0

    def queue(self, name: str) -> Queue:
        """The queue of that name."""
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = Queue()
        return found

    def serve(
        self, queue: str, latency: int, cores: int, asked: tuple[int, int, int]
    ) -> tuple[int, int, int]:
        """Queue the requests that all cores have just made at an engine, first come first served.
        `asked`: the requests of each, its cycles to make them, and those that the engine serves all
        of them.

        Returns when the service of the first one starts, when that of the first core ends, and when
        that of the last core does.
        """
        requests, issue_cycles, service_cycles = asked
        intervals, ahead = self.queue(queue).intervals, self.now - self.first
        later = issue_cycles - issue_cycles // requests
        share = -(-service_cycles // (cores * requests))
        start = self.first - later + latency
        if intervals:
            start = max(start, intervals[-1][1])
        end = max(start + service_cycles, self.now + latency + share)
        # Requests of others that come before the last one of the first core.
        before = later / (2 * ahead) if later < ahead else 1 - ahead / (2 * later) if later else 0
        others = int(before * service_cycles * (requests - 1) / requests)
        if intervals and intervals[-1][1] == start:
            intervals[-1] = (intervals[-1][0], end)
        else:
            intervals.append((start, end))
        return start, max(start + others, self.first + latency) + share, end

    def spend(self, cycles: int, *, together: bool = False) -> None:
        """Move all clocks; cores that do something `together` start with the last of them."""
        self.first = (self.now if together else self.first) + cycles
        self.now += cycles

    def advance(self, queue: str, to_cycle: int) -> list[tuple[StallCause, int, int]]:
        """Move the clock to `to_cycle`, when a transfer of `queue` is done; returns the (cause,
        start, cycles) pieces in order of time.
        """
        pieces: list[tuple[StallCause, int, int]] = []
        for start, end in self.queue(queue).intervals:
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
        """Drop the engines' intervals that lie in the past of all cores."""
        for queue in self.queues.values():
            queue.intervals = [i for i in queue.intervals if i[1] > self.first]

    def snapshot(self) -> Snapshot:
        """This state relative to its clock: equal snapshots behave equally from here on."""
        now = self.now
        every = [(name, queue.snapshot(self.first)) for name, queue in sorted(self.queues.items())]
        queues = tuple([(name, busy) for name, busy in every if any(busy)])
        pending = [
            (slot, Pending(max(first - self.first, 0), max(ready - now, 0), move, queue))
            for slot, (first, ready, move, queue) in sorted(self.pending.items())
        ]
        contents = tuple(sorted(self.contents.items()))
        return now - self.first, queues, tuple(pending), contents, self.code

    def restore(self, snapshot: Snapshot, now: int) -> None:
        """Become the state that `snapshot` describes, at cycle `now`."""
        ahead, queues, pending, contents, self.code = snapshot
        self.now, self.first = now, now - ahead
        self.queues = {
            name: Queue([(a + self.first, b + self.first) for a, b in intervals], last)
            for name, (intervals, last) in queues
        }
        self.pending = {
            slot: Pending(p.first_ready_cycle + self.first, p.ready_cycle + now, p.move, p.queue)
            for slot, p in pending
        }
        self.contents = dict(contents)
