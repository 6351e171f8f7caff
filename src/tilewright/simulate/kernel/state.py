"""State that a kernel's timing depends on at one moment: the clock, the engines, the slots.

A `KernelState` moves with the run; its `snapshot` is a value relative to the clock, so that two
moments with equal snapshots have equal futures. That is what makes skipping exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tilewright.ir.nodes import Direction
from tilewright.simulate.trace import StallCause

Slot: TypeAlias = tuple[str, int]
WHOLE = 0
"""The content of a slot whose every element counts as data."""


_MOST_AHEAD = 1 << 13
"""Cycles that some cores are ahead of others at most, so that loops have a steady state: what was
asked so long ago is served by then.
"""


class Clocks(NamedTuple):
    """When the core is that is served first, and the one that is served last."""

    first: int = 0
    last: int = 0

    def after(self, cycles: int) -> Clocks:
        """So many cycles later."""
        return Clocks(self.first + cycles, self.last + cycles)

    def until(self, other: Clocks) -> Clocks:
        """Not before the other."""
        return Clocks(max(self.first, other.first), max(self.last, other.last))


START = Clocks()


class Participants(NamedTuple):
    """How many `cores` have a part in a transfer, all of them among the first `until`."""

    cores: int
    until: int


class Pending(NamedTuple):
    """The outstanding transfers of one slot: when those of the cores with a `part` are done, and of
    those apart (0: they have none), which move started it, in which queue.

    They all go one way: a get has its slot to itself.
    """

    ready: Clocks
    apart_ready: Clocks
    part: Participants
    move: int
    queue: str

    def since(self, cycle: int) -> Pending:
        """These after a cycle."""
        ready, apart = (own.after(-cycle).until(START) for own in (self.ready, self.apart_ready))
        return self._replace(ready=ready, apart_ready=apart)


class CoreRequests(NamedTuple):
    """A transfer: the requests of each core, its cycles to make them, those that the engine serves
    all of them, and who has a part.
    """

    requests: int
    issue_cycles: int
    service_cycles: int
    part: Participants


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
    tuple[Clocks, Clocks, int],
    tuple[tuple[str, Busy], ...],
    tuple[tuple[Slot, Pending], ...],
    tuple[tuple[Slot, int], ...],
    int,
]


@dataclass
class KernelState:
    """The clocks of the cores, the engines' queues, the slots' transfers and contents.

    All are done at `now`. The last `others` of the `cores`, if any, had no part in a transfer and
    do not wait for it: they are `apart` until all meet again.

    `contents` numbers what a slot that is in use holds (which part of it is data, see
    `kernel_execute`), `code` is the number of what the instruction cache holds.
    """

    cores: int = 1
    now: int = 0
    own: Clocks = START
    apart: Clocks = START
    others: int = 0
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

    def serve(self, queue: str, latency: int, asked: CoreRequests) -> tuple[int, Clocks, Clocks]:
        """Queue the requests that cores make now at an engine, first come first served. Returns
        when the service starts, and when it ends for the cores with a part and for those apart (0:
        they have none).
        """
        requests, issue_cycles, service_cycles, part = asked
        self._let_go(part)
        joined = self.cores - self.others
        rest = max(part.cores - joined, 0)
        later = issue_cycles - issue_cycles // requests
        share = -(-service_cycles // (part.cores * requests))
        ahead = (self.own.last - self.own.first) * min(part.until, joined) // joined
        asking = [(Clocks(self.own.first, self.own.first + ahead), part.cores - rest)]
        asking += [(self.apart, rest)] if rest else []
        intervals = self.queue(queue).intervals
        free, ready = intervals[-1][1] if intervals else 0, [START, START]
        begins = list[int]()
        for clocks, cores in sorted(asking):
            arrive = clocks.after(issue_cycles + latency)
            begins.append(max(free, arrive.first - later))
            free = begins[-1] + service_cycles * cores // part.cores
            end = max(free, arrive.last + share)
            # Requests of others that come before the last one of the first core.
            ahead = clocks.last - clocks.first
            before = (
                later / (2 * ahead) if later < ahead else 1 - ahead / (2 * later) if later else 0
            )
            others = int(before * service_cycles * cores // part.cores * (requests - 1) / requests)
            first = max(begins[-1] + others, arrive.first) + share
            ready[clocks is self.apart] = Clocks(min(first, end), end)
        start, end = begins[0], max(own.last for own in ready)
        self.own = self.own.after(issue_cycles)
        if rest:
            self.apart = self.apart.after(issue_cycles)
        self._meet()
        if intervals and intervals[-1][1] == start:
            intervals[-1] = (intervals[-1][0], end)
        else:
            intervals.append((start, end))
        return start, ready[0], ready[1]

    def _let_go(self, part: Participants) -> None:
        """Let those go on that have no part in something."""
        if part.cores < self.cores and not self.others:
            first, last = self.own
            before = part.until if part.cores == part.until else 0
            self.others = self.cores - part.cores
            self.own = Clocks(first, first + (last - first) * part.until // self.cores)
            self.apart = Clocks(first + (last - first) * before // self.cores, last)

    def spend(self, cycles: int, own_cycles: int | None = None) -> int:
        """Move all clocks, of those with a part by `own_cycles` where some are apart; returns by
        how much all are later.
        """
        before = self.now
        self.own = self.own.after(own_cycles if self.others and own_cycles is not None else cycles)
        self.apart = self.apart.after(cycles)
        self._meet()
        return self.now - before

    def together(self) -> None:
        """Let all cores wait for the last of them."""
        self.own, self.others = Clocks(self.now, self.now), 0

    def _meet(self) -> None:
        """Take the time of the last of all cores."""
        self.now = max(self.own.last, self.apart.last) if self.others else self.own.last
        least = self.now - _MOST_AHEAD
        self.own = self.own.after(max(least - self.own.last, 0))
        self.apart = self.apart.after(max(least - self.apart.last, 0))

    def wait(self, pending: Pending) -> list[tuple[StallCause, int, int]]:
        """Move the clocks to when transfers are done; returns the (cause, start, cycles) pieces by
        which all are later, in order of time.
        """
        self._let_go(pending.part)
        self.own = self.own.until(pending.ready)
        self.apart = self.apart.until(pending.apart_ready)
        pieces, now = list[tuple[StallCause, int, int]](), self.now
        self._meet()
        for start, end in self.queue(pending.queue).intervals:
            low, high = max(start, now), min(end, self.now)
            if low < high:
                if now < low:
                    pieces.append(("latency", now, low - now))
                pieces.append(("bandwidth", low, high - low))
                now = high
        if now < self.now:
            pieces.append(("latency", now, self.now - now))
        self.forget()
        return pieces

    def forget(self) -> None:
        """Drop the engines' intervals that lie in the past of all cores."""
        for queue in self.queues.values():
            queue.intervals = [i for i in queue.intervals if i[1] > self._earliest()]

    def _earliest(self) -> int:
        return min(self.own.first, self.apart.first) if self.others else self.own.first

    def snapshot(self) -> Snapshot:
        """This state relative to its clock: equal snapshots behave equally from here on."""
        now, early = self.now, self._earliest()
        every = [(name, queue.snapshot(early)) for name, queue in sorted(self.queues.items())]
        queues = tuple([(name, busy) for name, busy in every if any(busy)])
        apart = self.apart.after(-now) if self.others else START
        pending = [(slot, own.since(early)) for slot, own in sorted(self.pending.items())]
        contents = tuple(sorted(self.contents.items()))
        return (
            (self.own.after(-now), apart, self.others),
            queues,
            tuple(pending),
            contents,
            self.code,
        )

    def restore(self, snapshot: Snapshot, now: int) -> None:
        """Become the state that `snapshot` describes, at cycle `now`."""
        (own, apart, self.others), queues, pending, contents, self.code = snapshot
        self.now, self.own, self.apart = now, own.after(now), apart.after(now)
        early = self._earliest()
        self.queues = {
            name: Queue([(a + early, b + early) for a, b in intervals], last)
            for name, (intervals, last) in queues
        }
        self.pending = {slot: own.since(-early) for slot, own in pending}
        self.contents = dict(contents)
