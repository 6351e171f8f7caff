"""State that a kernel's timing depends on at one moment: clocks, engine queues and slots.

A `KernelState` advances with the run. Its `snapshot` is relative to the clock, so two moments with
equal snapshots have equal futures, which makes skipping exact.
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
"""Number of the content of a slot whose every element counts as data."""


class Clocks(NamedTuple):
    """Clocks of the first- and the last-served core of a crowd. The others are spread evenly from
    `start` to `last`; those due before `first` come with the first core.
    """

    first: int = 0
    last: int = 0
    start: int = 0

    def after(self, cycles: int) -> Clocks:
        """These clocks `cycles` later."""
        return Clocks(self.first + cycles, self.last + cycles, self.start + cycles)

    def until(self, other: Clocks) -> Clocks:
        """These clocks, delayed to `other` where that is later."""
        start = other.start if other.last > self.last else self.start
        return Clocks(max(self.first, other.first), max(self.last, other.last), start)


START = Clocks()


class ServedAsk(NamedTuple):
    """A crowd's request to a queue: the `clocks` at which its cores are served, the clocks at which
    they `asked`, the service cycles of all of them, and when the queue is `free` of it.
    """

    clocks: Clocks
    asked: Clocks = START
    queue: str = ""
    service_cycles: int = 0
    free: int = 0

    def after(self, cycles: int) -> ServedAsk:
        """This request `cycles` later."""
        clocks, asked = self.clocks.after(cycles), self.asked.after(cycles)
        return self._replace(clocks=clocks, asked=asked, free=self.free + cycles)

    def since(self, cycle: int) -> ServedAsk:
        """This request relative to `cycle`, with everything that is past by then dropped."""
        clocks, past = self.clocks.after(-cycle).until(START), self.asked.last <= cycle
        asked, free = (START, 0) if past else (self.asked.after(-cycle), self.free - cycle)
        return ServedAsk(clocks, asked, self.queue, self.service_cycles, free)


class Pending(NamedTuple):
    """Outstanding transfers of one slot: the cores that take part, and the move that started them.

    All go in one direction: a get has its slot to itself.
    """

    part: Participants
    move: int


class Spend(NamedTuple):
    """Cycles that a crowd spends on an activity, charged to counter `column`; its first core is
    done `early_cycles` sooner.
    """

    cycles: int
    column: int
    activity: str
    statement: str
    early_cycles: int = 0


class Ask(NamedTuple):
    """A crowd's requests for a transfer in which `cores` of it take part. If other cores of it were
    served ahead, the first one was served `served_cycles` after its clock.
    """

    slot: Slot
    move: int
    queue: str
    latency_cycles: int
    cost: MoveCost
    cores: int
    served_cycles: int = 0

    def service_cycles(self, cores: int) -> int:
        """Engine cycles that serve `cores` of the participants."""
        return self.cost.service_cycles * cores // self.cost.part.cores


class Await(NamedTuple):
    """A crowd's wait for a slot, whose transfers one queue serves."""

    slot: Slot
    move: int
    queue: str


CrowdAction: TypeAlias = Spend | Ask | Await


@dataclass
class Queue:
    """State of one engine's queue: its busy intervals not yet past, and its latest request."""

    intervals: list[tuple[int, int]] = field(default_factory=list)
    last: Request | None = None

    @property
    def free(self) -> int:
        """The cycle from which on the engine is free."""
        return self.intervals[-1][1] if self.intervals else 0

    def serve(self, start: int, end: int) -> None:
        """Append a busy interval, merged with the last one if they touch."""
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
    """The cores' clocks, the engines' queues, and the slots' transfers and contents.

    The last core is done at `now`. If some of the `cores`, which lie in rows of `columns`, take no
    part in a transfer, they do not wait for it: its `own` cores and the cores apart become two
    crowds with clocks of their own, until all meet again. `spared` is how far each crowd will be
    ahead of the common clock when they part, by calls that take fewer cycles on its cores.
    Statements come in program order, but actions of the crowd that is later in time are kept in
    `behind` until the other crowd, which may ask the engine first, has caught up.

    `contents` numbers the content of each slot in use (the part of it that is data, see
    `KernelCosts.content`), `code` that of the instruction cache.
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
        """Number of the participants that are in the crowd apart."""
        return part.cores - part.shared(self.own) if self.own else 0

    def queue(self, name: str) -> Queue:
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = Queue()
        return found

    def next_crowd(self, *, whole: bool) -> int | None:
        """The crowd that acts next, None until more statements come: the earlier one, once its next
        action is known and no action of the other can precede it. With `whole`, no more come.
        """
        own, apart = self.behind
        crowd = OWN if self.clocks[OWN].last <= self.clocks[APART].last else APART
        other, forced = 1 - crowd, whole or len(own) + len(apart) > MOST_BEHIND
        later = self.clocks[other].first > self.clocks[crowd].last
        if self.behind[crowd] and (self.behind[other] or later or forced):
            return crowd
        return other if self.behind[other] and forced else None

    def ask(self, crowd: int, ask: Ask) -> int:
        """Queue a crowd's requests, first come, first served; returns the cycle of the start."""
        cost, (first, last, _) = ask.cost, self.clocks[crowd]
        if self.own:
            self._serve_earlier(1 - crowd, ask.queue, first)
        if crowd == OWN:
            joined = self.own.cores if self.own else self.cores
            last = first + (last - first) * min(cost.part.until, joined) // joined
        arrive = Clocks(first, last, first).after(cost.issue_cycles + ask.latency_cycles)
        # A core issues its first request `later` cycles before its last one.
        later = cost.issue_cycles - cost.issue_cycles // cost.requests
        share = cost.share_cycles
        queue, service = self.queue(ask.queue), ask.service_cycles(ask.cores)
        start = max(queue.free, arrive.first - later)
        end = max(start + service, arrive.last + share)
        behind = self._go_between(crowd, ask.queue, arrive, service)
        # Requests of other cores that precede the first core's last one.
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
        """Let a transfer's first requests overtake the last requests of the crowd's earlier ones,
        which its last cores issue later. Returns the cycles of service overtaken.
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
        """Serve the requests that a crowd's earlier cores, but not all of it, issue by `cycle`."""
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
        """Part the crowds at the first transfer in which not all cores take part."""
        if part.cores < self.cores and not self.own:
            self.own = part
            parted = zip(self._parted(self.clocks[OWN], part), self.spared, strict=True)
            self.clocks = [own.after(-cycles) for own, cycles in parted]
            for slot, pending in self.pending.items():
                if pending.part.cores == self.cores and (slot, APART) not in self.ready:
                    own, apart = map(ServedAsk, self._parted(self.ready[slot, OWN].clocks, part))
                    self.ready |= {(slot, OWN): own, (slot, APART): apart}

    def _parted(self, clocks: Clocks, part: Participants) -> list[Clocks]:
        """Clocks of the participants, and of the cores apart."""
        first, last, _ = clocks
        before = part.until if part.cores == part.until else 0
        return [
            Clocks(first, first + (last - first) * part.end(self.columns) // self.cores, first),
            Clocks(at := first + (last - first) * before // self.cores, last, at),
        ]

    def keep_near(self) -> None:
        """Keep the later crowd at most `MOST_AHEAD` cycles ahead, by advancing the other one."""
        least = self.now - MOST_AHEAD
        self.clocks = [clocks.after(max(least - clocks.last, 0)) for clocks in self.clocks]

    def in_crowds(self, cycles: int, own_cycles: int, apart_cycles: int) -> tuple[int, int]:
        """Cycles of a call in each crowd; until they part both take `cycles`, less is `spared`."""
        if self.own:
            return own_cycles, apart_cycles
        own, apart = self.spared[OWN] - own_cycles, self.spared[APART] - apart_cycles
        self.spared = own - min(own, apart), apart - min(own, apart)
        return cycles, cycles

    def spend(self, crowd: int, cycles: int, early_cycles: int = 0) -> None:
        """Advance the clocks of a crowd, that of its first core by `early_cycles` less."""
        first, last, start = self.clocks[crowd].after(cycles)
        self._move(crowd, Clocks(first - early_cycles, last, start - early_cycles))

    def together(self) -> None:
        """Let all cores wait for the last one."""
        self.clocks[OWN], self.own, self.spared = Clocks(self.now, self.now, self.now), None, (0, 0)

    def _move(self, crowd: int, clocks: Clocks) -> None:
        """Set the clocks of a crowd, and `now` to that of the last core of all."""
        self.clocks[crowd] = clocks
        own, apart = self.clocks
        self.now = max(own.last, apart.last) if self.own else own.last

    def wait(self, crowd: int, wait: Await) -> list[tuple[StallCause, int, int]]:
        """Advance the clocks of a crowd until its transfers are done; returns the (cause, start,
        cycles) pieces by which `now` is later, in order of time.
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
        """Drop the engines' intervals that are past for all cores."""
        for queue in self.queues.values():
            queue.intervals = [i for i in queue.intervals if i[1] > self._earliest()]

    def _earliest(self) -> int:
        return min(own.first for own in self.clocks[: 2 if self.own else 1])

    def snapshot(self) -> Snapshot:
        """This state relative to its clock; equal snapshots have equal futures."""
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
    """Raise if a transfer starts on a slot that another still uses; several puts may read one."""
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
    """Raise if a call reads a slot before its get is done, or writes one with any outstanding."""
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
    """Raise if the program ends with a transfer never waited for."""
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


# Statements of a prepared program with their expressions evaluated, for all its runs: the checked
# slots, and everything their time depends on except the state of the run. Iterations with one
# number of `LoopStatement.alike` agree in all of it, so it is evaluated once.

OUTSIDE = -1
"""Stands for the number of an iteration outside all loops."""


class MovedStatement(NamedTuple):
    """A transfer's slot and cost, and the number of the content that it moves."""

    slot: Slot
    cost: MoveCost
    content: int


class CalledStatement(NamedTuple):
    """The slots of a call's operands, the `values` of its numbers, `dims` among them, and the
    number of its result's content.
    """

    slots: tuple[Slot, ...]
    values: tuple[int, ...]
    dims: tuple[int, ...]
    result: int


class Statements:
    """Evaluates the statements of one program, once per iteration number, every time without one.
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
