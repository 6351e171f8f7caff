"""State that a kernel's timing depends on at one moment: the clock, the engines, the slots.

A `KernelState` moves with the run; its `snapshot` is a value relative to the clock, so that two
moments with equal snapshots have equal futures. That is what makes skipping exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tilewright.common.errors import SimulationError
from tilewright.common.expr import evaluate
from tilewright.cost.pipeline_types import APART, MOST_AHEAD, MOST_BEHIND, OWN
from tilewright.simulate.kernel.cost import KernelCosts, MoveCost, Participants
from tilewright.simulate.kernel.engines import Request
from tilewright.simulate.kernel.program import (
    MAIN_MEMORY,
    CallStatement,
    Pause,
    PreparedProgram,
    TransferStatement,
)
from tilewright.simulate.trace import StallCause

Slot: TypeAlias = tuple[str, int]
WHOLE = 0
"""The content of a slot whose every element counts as data."""


class Clocks(NamedTuple):
    """When the core is that is served first, and the one that is served last. The others follow
    evenly from `start` on, those before `first` with the first.
    """

    first: int = 0
    last: int = 0
    start: int = 0

    def after(self, cycles: int) -> Clocks:
        """So many cycles later."""
        return Clocks(self.first + cycles, self.last + cycles, self.start + cycles)

    def until(self, other: Clocks) -> Clocks:
        """Not before the other."""
        start = other.start if other.last > self.last else self.start
        return Clocks(max(self.first, other.first), max(self.last, other.last), start)


START = Clocks()


class ServedAsk(NamedTuple):
    """When what a crowd asked a queue for is served, and from when on the queue is `free` of it;
    when the first of its cores `asked` and the last, for so many cycles of service of them all.
    """

    clocks: Clocks
    asked: Clocks = START
    queue: str = ""
    service_cycles: int = 0
    free: int = 0

    def after(self, cycles: int) -> ServedAsk:
        """So many cycles later."""
        clocks, asked = self.clocks.after(cycles), self.asked.after(cycles)
        return self._replace(clocks=clocks, asked=asked, free=self.free + cycles)

    def since(self, cycle: int) -> ServedAsk:
        """Relative to a cycle, without what is past then."""
        clocks, past = self.clocks.after(-cycle).until(START), self.asked.last <= cycle
        asked, free = (START, 0) if past else (self.asked.after(-cycle), self.free - cycle)
        return ServedAsk(clocks, asked, self.queue, self.service_cycles, free)


class Pending(NamedTuple):
    """The outstanding transfers of one slot: who has a part, and which move started them.

    They all go one way: a get has its slot to itself.
    """

    part: Participants
    move: int


class Spend(NamedTuple):
    """Cycles of a crowd that a counter counts, for an activity of a statement; the first of the
    crowd is done so many before.
    """

    cycles: int
    column: int
    activity: str
    statement: str
    early_cycles: int = 0


class Ask(NamedTuple):
    """Requests of a crowd, of which so many `cores` have a part in the transfer; where others of it
    asked before, the first one is served so many cycles later than its clock.
    """

    slot: Slot
    move: int
    queue: str
    latency_cycles: int
    cost: MoveCost
    cores: int
    served_cycles: int = 0

    def service_cycles(self, cores: int) -> int:
        """Cycles that the engine serves so many of the cores."""
        return self.cost.service_cycles * cores // self.cost.part.cores


class Await(NamedTuple):
    """A wait of a crowd for a slot, whose transfers one queue serves."""

    slot: Slot
    move: int
    queue: str


CrowdAction: TypeAlias = Spend | Ask | Await


@dataclass
class Queue:
    """State of one engine: its busy intervals that are not over, and its latest request."""

    intervals: list[tuple[int, int]] = field(default_factory=list)
    last: Request | None = None

    @property
    def free(self) -> int:
        """The cycle from which on the engine is free."""
        return self.intervals[-1][1] if self.intervals else 0

    def serve(self, start: int, end: int) -> None:
        """Note that the engine is busy for a while, after all that it does."""
        if self.intervals and self.intervals[-1][1] == start:
            start = self.intervals.pop()[0]
        if start < end:
            self.intervals.append((start, end))

    def snapshot(self, now: int) -> Busy:
        """This queue relative to the clock."""
        return tuple([(max(a - now, 0), b - now) for a, b in self.intervals if b > now]), self.last


Busy: TypeAlias = tuple[tuple[tuple[int, int], ...], Request | None]
Snapshot: TypeAlias = tuple[Any, ...]


@dataclass
class KernelState:
    """The clocks of the cores, the engines' queues, the slots' transfers and contents.

    All are done at `now`. Where some of the `cores`, which lie in rows of `columns`, have no part
    in a transfer they do not wait for those that are its `own`, and are a crowd apart until all
    meet again. `spared` is how far either will be ahead of the clock that all have before, by calls
    that take cores with and without data less than others. Statements come in order, but what the
    crowd does that is later in time is kept back until the other one, which may ask the engine for
    something before, has come as far.

    `contents` numbers what a slot that is in use holds (which part of it is data, see
    `kernel_execute`), `code` is the number of what the instruction cache holds.
    """

    cores: int = 1
    columns: int = 1
    now: int = 0
    clocks: list[Clocks] = field(default_factory=lambda: [START, START])
    own: Participants | None = None
    spared: tuple[int, int] = (0, 0)
    behind: tuple[list[CrowdAction], list[CrowdAction]] = field(default_factory=lambda: ([], []))
    queues: dict[str, Queue] = field(default_factory=dict)
    pending: dict[Slot, Pending] = field(default_factory=dict)
    ready: dict[tuple[Slot, int], ServedAsk] = field(default_factory=dict)
    contents: dict[Slot, int] = field(default_factory=dict)
    code: int = 0

    def part_apart(self, part: Participants) -> int:
        """The number of cores with a part that are apart."""
        return part.cores - part.shared(self.own) if self.own else 0

    def queue(self, name: str) -> Queue:
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = Queue()
        return found

    def next_crowd(self, *, whole: bool) -> int | None:
        """The crowd that acts next: the one that is earlier, if it is known what it does, and what
        cores of the other one do before. All that is kept back is done where it is the `whole`.
        """
        own, apart = self.behind
        crowd = OWN if self.clocks[OWN].last <= self.clocks[APART].last else APART
        other, forced = 1 - crowd, whole or len(own) + len(apart) > MOST_BEHIND
        later = self.clocks[other].first > self.clocks[crowd].last
        if self.behind[crowd] and (self.behind[other] or later or forced):
            return crowd
        return other if self.behind[other] and forced else None

    def ask(self, crowd: int, ask: Ask) -> int:
        """Queue a crowd's requests, first come first served. Returns when the service starts."""
        cost, (first, last, _) = ask.cost, self.clocks[crowd]
        if self.own:
            self._serve_earlier(1 - crowd, ask.queue, first)
        if crowd == OWN:
            joined = self.own.cores if self.own else self.cores
            last = first + (last - first) * min(cost.part.until, joined) // joined
        arrive = Clocks(first, last, first).after(cost.issue_cycles + ask.latency_cycles)
        later = cost.issue_cycles - cost.issue_cycles // cost.requests
        share = cost.share_cycles
        queue, service = self.queue(ask.queue), ask.service_cycles(ask.cores)
        start = max(queue.free, arrive.first - later)
        end = max(start + service, arrive.last + share)
        behind = self._go_between(crowd, ask.queue, arrive, service)
        # Requests of others that come before the last one of the first core.
        ahead = last - first
        before = later / (2 * ahead) if later < ahead else 1 - ahead / (2 * later) if later else 0
        others = int(before * service * (cost.requests - 1) / cost.requests)
        begin = max(queue.free - behind, arrive.first - later)
        served = min(max(begin + others, arrive.first) + share, end)
        if ask.served_cycles:
            served = first + ask.served_cycles
        clocks, free = Clocks(served, end, served), start + service
        self.ready[ask.slot, crowd] = ServedAsk(clocks, arrive, ask.queue, service, free)
        self._move(crowd, self.clocks[crowd].after(cost.issue_cycles))
        queue.serve(start, start + service)
        return start

    def _go_between(self, crowd: int, queue: str, arrive: Clocks, service: int) -> int:
        """Serve the first requests of a transfer before the last ones of those that the crowd asks
        for before: the last cores come to them later. Returns the service of these last ones.
        """
        behind, ahead = 0, arrive.last - arrive.first
        for at, other in self.ready.items():
            late, spread = other.asked.last - arrive.first, other.asked.last - other.asked.first
            if at[1] == crowd and other.queue == queue and late > 0 and spread > 0:
                behind += other.service_cycles * late // spread
                free = other.free + (service * late // ahead if late < ahead else service)
                last = max(other.clocks.last, free)
                clocks = other.clocks._replace(last=last)
                self.ready[at] = other._replace(clocks=clocks, free=free)
        return behind

    def _serve_earlier(self, crowd: int, queue: str, cycle: int) -> None:
        """Serve what cores of a crowd ask for before a cycle, while others of it do later."""
        kept, (first, last, start) = self.behind[crowd], self.clocks[crowd]
        ask = kept[0] if kept else None
        if isinstance(ask, Ask) and ask.queue == queue and first <= cycle < last:
            early = ask.cores * max(0, cycle - start) // (last - start)
            begin = first + ask.cost.issue_cycles + ask.latency_cycles
            begin = max(self.queue(queue).free, begin)
            self.queue(queue).serve(begin, begin + ask.service_cycles(early))
            served = ask.served_cycles or begin + ask.cost.share_cycles - first
            if early:
                kept[0] = ask._replace(cores=ask.cores - early, served_cycles=served)

    def let_go(self, part: Participants) -> None:
        """Let those go on that have no part in something."""
        if part.cores < self.cores and not self.own:
            self.own = part
            parted = zip(self._parted(self.clocks[OWN], part), self.spared, strict=True)
            self.clocks = [own.after(-cycles) for own, cycles in parted]
            for slot, pending in self.pending.items():
                if pending.part.cores == self.cores and (slot, APART) not in self.ready:
                    own, apart = map(ServedAsk, self._parted(self.ready[slot, OWN].clocks, part))
                    self.ready |= {(slot, OWN): own, (slot, APART): apart}

    def _parted(self, clocks: Clocks, part: Participants) -> list[Clocks]:
        """The clocks of those with a part, and of those apart."""
        first, last, _ = clocks
        before = part.until if part.cores == part.until else 0
        return [
            Clocks(first, first + (last - first) * part.end(self.columns) // self.cores, first),
            Clocks(at := first + (last - first) * before // self.cores, last, at),
        ]

    def keep_near(self) -> None:
        """Let neither crowd be further ahead of the other than is told apart."""
        least = self.now - MOST_AHEAD
        self.clocks = [clocks.after(max(least - clocks.last, 0)) for clocks in self.clocks]

    def in_crowds(self, cycles: int, own_cycles: int, apart_cycles: int) -> tuple[int, int]:
        """The cycles of a call in either crowd, those of the slower one before they part."""
        if self.own:
            return own_cycles, apart_cycles
        own, apart = self.spared[OWN] - own_cycles, self.spared[APART] - apart_cycles
        self.spared = own - min(own, apart), apart - min(own, apart)
        return cycles, cycles

    def spend(self, crowd: int, cycles: int, early_cycles: int = 0) -> None:
        """Move the clocks of a crowd, those of its first core by less."""
        first, last, start = self.clocks[crowd].after(cycles)
        self._move(crowd, Clocks(first - early_cycles, last, start - early_cycles))

    def together(self) -> None:
        """Let all cores wait for the last of them."""
        self.clocks[OWN], self.own, self.spared = Clocks(self.now, self.now, self.now), None, (0, 0)

    def _move(self, crowd: int, clocks: Clocks) -> None:
        """Set the clocks of a crowd, and take the time of the last of all cores."""
        self.clocks[crowd] = clocks
        own, apart = self.clocks
        self.now = max(own.last, apart.last) if self.own else own.last

    def wait(self, crowd: int, wait: Await) -> list[tuple[StallCause, int, int]]:
        """Move the clocks of a crowd to when its transfers are done; returns the (cause, start,
        cycles) pieces by which all are later, in order of time.
        """
        pieces, now, clocks = list[tuple[StallCause, int, int]](), self.now, self.clocks[crowd]
        for asked in (crowd,) if self.own else (OWN, APART):
            if served := self.ready.pop((wait.slot, asked), None):
                clocks = clocks.until(served.clocks)
        self._move(crowd, clocks)
        if not self.own:
            own, apart = (max(0, cycles - (self.now - now)) for cycles in self.spared)
            self.spared = own, apart
        for start, end in self.queue(wait.queue).intervals:
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
        return min(own.first for own in self.clocks[: 2 if self.own else 1])

    def snapshot(self) -> Snapshot:
        """This state relative to its clock: equal snapshots behave equally from here on."""
        now, early = self.now, self._earliest()
        every = [(name, queue.snapshot(early)) for name, queue in sorted(self.queues.items())]
        queues = tuple([(name, busy) for name, busy in every if any(busy)])
        own, apart = self.clocks
        clocks = own.after(-now), apart.after(-now) if self.own else START
        ready = [(at, served.since(early)) for at, served in sorted(self.ready.items())]
        return (
            (*clocks, self.own, self.spared),
            queues,
            tuple(sorted(self.pending.items())),
            tuple(ready),
            tuple(sorted(self.contents.items())),
            self.code,
            tuple(map(tuple, self.behind)),
        )

    def restore(self, snapshot: Snapshot, now: int) -> None:
        """Become the state that `snapshot` describes, at cycle `now`."""
        clocks, queues, pending, ready, contents, self.code, behind = snapshot
        own, apart, self.own, self.spared = clocks
        self.now, self.clocks = now, [own.after(now), apart.after(now)]
        early = self._earliest()
        self.queues = {
            name: Queue([(a + early, b + early) for a, b in intervals], last)
            for name, (intervals, last) in queues
        }
        self.pending, self.contents = dict(pending), dict(contents)
        self.ready = {at: own.after(early) for at, own in ready}
        self.behind = list(behind[OWN]), list(behind[APART])


# Misuse of a scratchpad slot: the rules, and the error of each.
#
# In: a slot, the statement that touches it and the outstanding transfers. Out: nothing, or
# SimulationError with the buffer, the slot, the statement and the values of the loop variables.

Env: TypeAlias = dict[str, int]


def check_slot(prepared: PreparedProgram, slot: Slot, text: str, env: Env) -> None:
    """Raise unless the buffer has this slot."""
    name, number = slot
    copies = prepared.buffers[name].copies
    if not 0 <= number < copies:
        raise SimulationError(
            f"slot {number} of {name} does not exist: it has {copies}", where=_where(text, env)
        )


def check_size(prepared: PreparedProgram, slot: Slot, elements: int, text: str, env: Env) -> None:
    """Raise unless a tile fits its slot."""
    room = prepared.buffers[slot[0]].elements
    if elements > room:
        raise SimulationError(
            f"a tile of {elements} elements does not fit {_shown(slot)} of {room}",
            where=_where(text, env),
        )


def check_move(
    prepared: PreparedProgram,
    move: TransferStatement,
    slot: Slot,
    pending: Mapping[Slot, Pending],
    env: Env,
) -> None:
    """Raise where a transfer starts on a slot that another needs; several puts may read one."""
    if slot not in pending:
        return
    other = prepared.moves[pending[slot].move].stmt.direction
    if move.stmt.direction == "get":
        _refuse(prepared, slot, pending, "a get writes", _where(move.text, env))
    if other == "get":
        _refuse(prepared, slot, pending, "a put reads", _where(move.text, env))


def check_work(
    prepared: PreparedProgram,
    work: CallStatement,
    slots: Sequence[Slot],
    pending: Mapping[Slot, Pending],
    env: Env,
) -> None:
    """Raise where a call reads what has not arrived, or writes what has not left."""
    for i, slot in enumerate(slots):
        if slot not in pending:
            continue
        direction = prepared.moves[pending[slot].move].stmt.direction
        name, where = work.call.primitive.name, _where(work.text, env)
        if i == 0:
            _refuse(prepared, slot, pending, f"{name} writes", where)
        if direction == "get":
            _refuse(prepared, slot, pending, f"{name} reads", where)


def check_end(prepared: PreparedProgram, pending: Mapping[Slot, Pending]) -> None:
    """Raise where the program ends before a transfer is waited for."""
    for slot, transfer in sorted(pending.items()):
        move = prepared.moves[transfer.move]
        raise SimulationError(
            f"{_transfer(move, slot)} is never waited for",
            where=move.text,
            fix=f"wait for {_shown(slot)} before the end",
        )


def _refuse(
    prepared: PreparedProgram, slot: Slot, pending: Mapping[Slot, Pending], action: str, where: str
) -> None:
    move = prepared.moves[pending[slot].move]
    raise SimulationError(
        f"{action} {_shown(slot)} while {_transfer(move, slot)} is outstanding",
        where=where,
        fix=f"wait for {_shown(slot)} first",
    )


def _transfer(move: TransferStatement, slot: Slot) -> str:
    stmt = move.stmt
    way = "into" if stmt.direction == "get" else "from"
    return f"a {stmt.direction} of {stmt.tensor} {way} {_shown(slot)}"


def _shown(slot: Slot) -> str:
    return f"{slot[0]}[{slot[1]}]"


def _where(text: str, env: Env) -> str:
    values = ", ".join(f"{name} = {value}" for name, value in env.items())
    return f"{text} at {values}" if values else text


# Statements of a prepared program by the values of their expressions, for all its runs: slots,
# checked, and what their time depends on but for the state of the run. Iterations of one number of
# `LoopStatement.alike` agree in all of it, so that it is found once.

OUTSIDE = -1
"""In the place of an iteration's number: outside all loops."""


class MovedStatement(NamedTuple):
    """The slot of a transfer, its cost, and the number of the content that it moves."""

    slot: Slot
    cost: MoveCost
    content: int


class CalledStatement(NamedTuple):
    """The slots of a call's operands, all its `values`, those of its `dims`, and the number of the
    content of its result.
    """

    slots: tuple[Slot, ...]
    values: tuple[int, ...]
    dims: tuple[int, ...]
    result: int


class Statements:
    """Statements of one program with their costs. An iteration without a number is like no other.
    Raises SimulationError as `check_slot` and `check_size` do.
    """

    def __init__(self, prepared: PreparedProgram, costs: KernelCosts) -> None:
        self._prepared, self.costs = prepared, costs
        self._moved: dict[tuple[int, int | None], MovedStatement] = {}
        self._called: dict[tuple[int, int | None], CalledStatement] = {}
        self._awaited: dict[tuple[int, int | None], Slot] = {}

    def moved(self, move: TransferStatement, env: Env, number: int | None) -> MovedStatement:
        """The slot, cost and content of a transfer."""
        found = self._moved.get((move.number, number))
        if found is None or number is None:
            place, *numbers = move.code(env)
            slot = (move.stmt.buffer, place)
            cost = self.costs.move(move, tuple(numbers))
            check_slot(self._prepared, slot, move.text, env)
            check_size(self._prepared, slot, cost.elements, move.text, env)
            found = MovedStatement(slot, cost, self.costs.content(move.region, env))
            self._moved[move.number, number] = found
        return found

    def called(self, work: CallStatement, env: Env, number: int | None) -> CalledStatement:
        """The slots and numbers of a call."""
        found = self._called.get((work.number, number))
        if found is None or number is None:
            values, operands = tuple(work.code(env)), len(work.buffers)
            slots = tuple(zip(work.buffers, values[:operands], strict=True))
            for slot, elements in zip(slots, values[operands : 2 * operands], strict=True):
                if slot[0] != MAIN_MEMORY:
                    check_slot(self._prepared, slot, work.text, env)
                    check_size(self._prepared, slot, elements, work.text, env)
            result = self.costs.content(work.result, env) if work.result else WHOLE
            found = CalledStatement(slots, values, work.dims_of(values), result)
            self._called[work.number, number] = found
        return found

    def awaited(self, pause: Pause, env: Env, number: int | None) -> Slot:
        """The slot of a wait."""
        found = self._awaited.get((id(pause), number))
        if found is None or number is None:
            found = pause.buffer, int(evaluate(pause.slot, env))
            check_slot(self._prepared, found, pause.text, env)
            self._awaited[id(pause), number] = found
        return found
