"""The window executor: in-order issue, with a window of long operations in flight on their units.

In: decoded steps, issue rules and a window. Out: a `WindowRun`. Instructions issue as in the
compiled pipeline (`simulate.units.issue`): the same rules, the same causes of cycles without issue.
A long operation, one with an expression for its cycles, needs a slot of the window to issue. It
starts when its unit is free and no earlier one in flight conflicts with the spans that it reads and
writes; its slot is freed in program order or when it ends. Values are computed in program order, or
not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from tilewright.common.errors import SimulationError
from tilewright.isa import Branch
from tilewright.isa.table import IssueRules
from tilewright.machine.parts import Issue as WindowRules
from tilewright.simulate.window.decode import OPERANDS, DecodedInstruction, encoded_steps, ordered
from tilewright.simulate.window.loop import DONE, FULL, run
from tilewright.simulate.window.memories import ElementRange, Memories, place_of
from tilewright.simulate.window.run import Event, Table, WaitCause, WindowRun, WindowStall
from tilewright.simulate.window.state import (
    END,
    EVENTS,
    GROUP,
    ISSUE,
    ISSUED,
    PLACES,
    SPAN_COUNT,
    STALLS,
    TIME,
    Ints,
    LoopRules,
    WindowState,
)
from tilewright.simulate.window.steady import room

# The compiled window executor: the same rules on arrays.
#
# In: an executor that has not begun. Out: its run, or None if it must be executed step by step: for
# an operation unknown to the compiled loop, or for a fault, which the executor then describes.
# Records grow by arrays, 40 bytes per operation. Whenever the loop stops, the values of the
# operations since are computed in program order: of those known to it, none affects time.

_CAUSES = tuple(WaitCause)
_DEPTH = 16
_FIRST_RECORDS = _PLACES = 1 << 14


def timed_run(executor: Executor) -> WindowRun | None:
    """The run of an executor that has not begun; None if it must be executed step by step."""
    units = tuple(dict.fromkeys(u for step in executor.steps for u in step.units))
    if executor.zero_registers or not executor.steps:
        return None
    memories = executor.memories
    read_only = [(r.memory, r.address, r.address + r.count) for r in memories.read_only]
    program = encoded_steps(executor.steps, units, memories.sizes, read_only, executor.parameters)
    if program is None:
        return None
    rules, window = executor.rules, executor.window
    own = LoopRules(
        rules.width,
        int(rules.write_after_write == "ordered"),
        int(rules.write_after_read == "next_cycle"),
        int(rules.branch_ends_group),
        rules.taken_branch_penalty_cycles,
        int(window.freed == "in_order"),
        executor.max_cycles,
    )
    registers = len(executor.registers)
    loops = 0 if executor.keeps_events else int(program.loops.max(initial=-1)) + 1
    state = WindowState(
        np.zeros(13, np.int64),
        np.array(executor.registers, np.int64),
        np.concatenate([np.zeros(registers, np.int64), np.full(registers, -1, np.int64)]),
        np.zeros(len(units), np.int64),
        np.zeros(len(units), np.int64),
        np.zeros(window.in_flight, np.int64),
        np.zeros((2 * window.in_flight + 2, 1 + 4 * SPAN_COUNT), np.int64),
        np.zeros(_DEPTH),
        np.zeros((_FIRST_RECORDS, 5), np.int64),
        np.zeros((_FIRST_RECORDS, 4), np.int64),
        np.zeros((_PLACES * executor.with_values, 1 + OPERANDS + 2 * SPAN_COUNT), np.int64),
        *room(loops * (not executor.with_values), registers, len(units), window.in_flight),
    )
    status = FULL
    while status == FULL:
        status = run(program, state, own)
        _compute_places(executor, state)
        if executor.told:
            executor.told(int(state.at[TIME]))
        if executor.keeps_events:
            state = state._replace(events=_grown(state.events, state.at[EVENTS]),
                                   stalls=_grown(state.stalls, state.at[STALLS]))  # fmt: skip
        elif status == FULL:
            _forget(state)
    executor.with_values = executor.with_values and status == DONE
    return _finished(executor, state, units) if status == DONE else None


def _forget(s: WindowState) -> None:
    """Drop all records except the last stall, which may continue."""
    if s.at[STALLS]:
        s.stalls[0] = s.stalls[s.at[STALLS] - 1]
    s.at[EVENTS], s.at[STALLS] = 0, min(1, s.at[STALLS])


def _grown(records: Ints, count: int) -> Ints:
    """The records, with twice the room if `count` of them nearly fill it."""
    full = count + 2 >= len(records)
    return np.concatenate([records, np.zeros_like(records)]) if full else records


def _compute_places(executor: Executor, s: WindowState) -> None:
    """Compute the values of the recorded operations and drop the records."""
    arrays, saturated = executor.memories.arrays, executor.saturated
    for number, *numbers in s.places[: s.at[PLACES]].tolist():
        step, ends = executor.steps[number], numbers[OPERANDS:]
        assert step.meaning is not None
        values = {o[0]: value for o, value in zip(ordered(step), numbers, strict=False)}
        spans = [arrays[x.memory][ends[2 * i] : ends[2 * i + 1]] for i, x in enumerate(step.spans)]
        if found := step.meaning(spans, values):
            saturated[number] = saturated.get(number, 0) + found
    s.at[PLACES] = 0


def _finished(executor: Executor, s: WindowState, units: tuple[str, ...]) -> WindowRun:
    """The results of the run, equal to those of `Executor.finished`."""
    finish = int(s.at[TIME]) + (1 if s.at[GROUP] else 0)
    events, stalls = s.events[: s.at[EVENTS]], s.stalls[: s.at[STALLS]]
    cycles = int(max(finish, s.at[END]))
    if cycles > finish:
        drain = [finish, cycles, _CAUSES.index(WaitCause.DRAIN), len(executor.steps) - 1]
        stalls = np.concatenate([stalls, np.array([drain], np.int64)])
    return WindowRun(
        cycles=cycles,
        issue_cycles=int(s.at[ISSUE]),
        instructions=int(s.at[ISSUED]),
        unit_busy={u: int(n) for u, n in zip(units, s.unit_busy, strict=True) if n},
        event_table=events,
        stall_table=stalls,
        units=units,
        registers=tuple(s.register.tolist()),
        memories=executor.memories.arrays,
        saturated=dict(executor.saturated),
    )


@dataclass(slots=True)
class _Flight:
    """An operation in flight: the cycle of its end, and its spans."""

    end: int
    reads: list[ElementRange]
    writes: list[ElementRange]


@dataclass(slots=True)
class Executor:
    """One run: `number` is the next instruction; `group` others have issued in cycle `time`.

    Without values, operations are timed and not computed. Unless it `keeps_events`, a long run
    drops its earlier events and stalls and, without values, skips turns of loops that repeat.
    `parameters` are the machine's numbers in expressions for cycles. `code_address` is that of the
    first instruction, in the table's units of address. A long run calls `told` with its current
    cycle from time to time.
    """

    steps: Sequence[DecodedInstruction]
    rules: IssueRules
    window: WindowRules
    registers: list[int]
    zero_registers: frozenset[int]
    memories: Memories
    with_values: bool
    max_cycles: int
    code_address: int = 0
    parameters: Mapping[str, float] = field(default_factory=dict)
    ready: list[int] = field(default_factory=list)
    unit_free: dict[str, int] = field(default_factory=dict)
    unit_busy: dict[str, int] = field(default_factory=dict)
    flights: list[_Flight] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    last_freed: int = 0
    events: list[Event] = field(default_factory=list)
    stalls: list[WindowStall] = field(default_factory=list)
    issued: int = 0
    issue_cycles: int = 0
    time: int = 0
    group: int = 0
    number: int = 0
    read_now: set[int] = field(default_factory=set)
    saturated: dict[int, int] = field(default_factory=dict)
    told: Callable[[int], None] | None = None
    keeps_events: bool = True

    def run(self) -> WindowRun:
        """Run until the program ends. Errors: SimulationError."""
        if not self.issued:
            found = timed_run(self)
            if found is not None:
                return found
        while self.step():
            pass
        return self.finished()

    @property
    def is_done(self) -> bool:
        """True if the program has ended."""
        return self.number >= len(self.steps)

    def step(self) -> bool:
        """Issue the next instruction; False if the program has ended. Raises SimulationError."""
        if not self.ready:
            self.ready = [0] * len(self.registers)
        if self.is_done:
            return False
        step = self.steps[self.number]
        unit = self._issuable(step)
        if not self.group:
            self.issue_cycles += 1
        self.read_now.update(step.reads)
        following = self._commit(step, unit, self.time)
        self.group += 1
        if step.instruction.traits.branch is not Branch.NONE:
            if following == step.number:
                raise SimulationError(
                    f"{step.instruction.text()}: branches to itself and never ends",
                    where=place_of(step),
                )
            self._branched(step, following)
        if self.group == self.rules.width:
            self._next_cycle(self.time + 1)
        self.number = following
        if self.time > self.max_cycles:
            raise SimulationError(
                f"the core still runs after {self.max_cycles} cycles",
                fix="raise max_cycles (--max-cycles), or look for a loop that never ends",
            )
        return True

    def _issuable(self, step: DecodedInstruction) -> str:
        """Advance to the cycle in which an instruction issues; returns its unit."""
        while True:
            cause, when, unit = self._obstacle(step)
            if cause is None and self.group and self._overwrites(step):
                cause, when = WaitCause.OUTPUT, self.time + 1
            if cause is None:
                return unit
            if self.group:
                self._next_cycle(self.time + 1)
                continue
            self._stall(self.time, when, cause, self.number)
            self._next_cycle(when)

    def _branched(self, step: DecodedInstruction, following: int) -> None:
        """End the group after a branch, and charge the penalty of a taken one."""
        is_last = following >= len(self.steps)
        penalty = self.rules.taken_branch_penalty_cycles if following != step.number + 1 else 0
        if penalty and not is_last:
            self._stall(self.time + 1, self.time + 1 + penalty, WaitCause.BRANCH, following)
        if penalty or self.rules.branch_ends_group:
            self._next_cycle(self.time + 1 + (0 if is_last else penalty))

    def _next_cycle(self, time: int) -> None:
        self.time, self.group = time, 0
        self.read_now.clear()

    # ---------------------------------------------------------------- issue

    def _obstacle(self, step: DecodedInstruction) -> tuple[WaitCause | None, int, str]:
        """(cause, cycle to look again, unit) of a step; the cause is None if it can issue now."""
        time = self.time
        when = max((self.ready[r] for r in step.reads), default=0)
        if when > time:
            return WaitCause.DATA, when, ""
        slack = 0
        if self.rules.write_after_write == "ordered":
            slack = step.instruction.latency_cycles - 1
        when = max((self.ready[r] for r in step.writes), default=0)
        if when > time + slack:
            return WaitCause.OUTPUT, when - slack, ""
        if step.cycles is not None:
            freed = self._slot_free_at(time)
            return (WaitCause.WINDOW, freed, "") if freed > time else (None, time, step.units[0])
        if step.spans:
            when = self._conflict_end(*self._ranges(step, step.values(self.registers)))
            if when > time:
                return WaitCause.SPANS, when, ""
        unit = self._free_unit(step)
        if not unit:
            return WaitCause.UNIT, min(self.unit_free.get(u, 0) for u in step.units), ""
        return None, time, unit

    def _overwrites(self, step: DecodedInstruction) -> bool:
        """True if a step overwrites a register read in this cycle and the rules forbid that."""
        forbidden = self.rules.write_after_read == "next_cycle"
        return forbidden and any(register in self.read_now for register in step.writes)

    def _free_unit(self, step: DecodedInstruction) -> str:
        """A free unit, if possible one that the next instruction cannot use; "" for none."""
        others: tuple[str, ...] = ()
        following = step.number + 1
        if self.group + 1 < self.rules.width and following < len(self.steps):
            others = self.steps[following].units
        free = [unit for unit in step.units if self.unit_free.get(unit, 0) <= self.time]
        return next((unit for unit in free if unit not in others), free[0] if free else "")

    def _slot_free_at(self, time: int) -> int:
        """First cycle, `time` at least, in which the window has a free slot."""
        while self.slots and self.slots[0] <= time:
            heappop(self.slots)
        return time if len(self.slots) < self.window.in_flight else self.slots[0]

    def _stall(self, start: int, stop: int, cause: WaitCause, number: int) -> None:
        last = self.stalls[-1] if self.stalls else None
        if last and (last.stop, last.cause, last.number) == (start, cause, number):
            self.stalls[-1] = WindowStall(last.start, stop, cause, number)
        elif stop > start:
            self.stalls.append(WindowStall(start, stop, cause, number))

    # ---------------------------------------------------------------- execution

    def _commit(self, step: DecodedInstruction, unit: str, time: int) -> int:
        """Issue an instruction with all its effects; returns the number of the next one."""
        self.issued += 1
        values = step.values(self.registers)
        if step.cycles is not None:
            self._fly(step, unit, time, values)
        else:
            spec = step.instruction.spec
            self.unit_free[unit] = time + spec.occupancy_cycles
            self.unit_busy[unit] = self.unit_busy.get(unit, 0) + spec.occupancy_cycles
            for register in step.writes:
                self.ready[register] = time + spec.latency_cycles
        self._compute(step, values)
        if step.halts:
            return len(self.steps)
        if step.taken is None or not step.taken(values.get("a", 0)):
            return step.number + 1
        if step.target_role:
            return self._instruction_at(step, values[step.target_role])
        return self._checked_target(step)

    def _fly(
        self, step: DecodedInstruction, unit: str, time: int, values: Mapping[str, int]
    ) -> None:
        """Put an operation in flight: its slot, its start and its end."""
        assert step.cycles is not None
        self.flights = [flight for flight in self.flights if flight.end > time]
        reads, writes = self._ranges(step, values)
        clear = self._conflict_end(reads, writes)
        start = max(time, clear, self.unit_free.get(unit, 0))
        end = start + int(step.cycles(values))
        self.unit_free[unit] = end
        self.unit_busy[unit] = self.unit_busy.get(unit, 0) + end - start
        self.flights.append(_Flight(end, reads, writes))
        in_order = self.window.freed == "in_order"
        self.last_freed = max(self.last_freed, end) if in_order else end
        heappush(self.slots, self.last_freed)
        for register in step.writes:
            self.ready[register] = end
        self.events.append(Event(time, start, end, unit, step.number))

    def _ranges(
        self, step: DecodedInstruction, values: Mapping[str, int]
    ) -> tuple[list[ElementRange], list[ElementRange]]:
        """The spans that a step reads, and those that it writes. Errors: SimulationError."""
        reads: list[ElementRange] = []
        writes: list[ElementRange] = []
        for span in step.spans:
            found = ElementRange(span.memory, int(span.address(values)), int(span.count(values)))
            self.memories.check(found, step, writes=span.writes)
            (writes if span.writes else reads).append(found)
        return reads, writes

    def _conflict_end(self, reads: Sequence[ElementRange], writes: Sequence[ElementRange]) -> int:
        """End of the last operation in flight that conflicts with these spans; 0 without any."""
        end = 0
        for flight in self.flights:
            if flight.end > end and (
                any(w.meets(r) for w in flight.writes for r in (*reads, *writes))
                or any(r.meets(w) for r in flight.reads for w in writes)
            ):
                end = flight.end
        return end

    def _compute(self, step: DecodedInstruction, values: Mapping[str, int]) -> None:
        result: int | None = None
        if step.compute is not None:
            result = step.compute(values)
        elif step.meaning is not None and (self.with_values or not step.spans):
            result = step.meaning(self.memories.views(step.spans, values), values)
        if result and not step.writes:
            self.saturated[step.number] = self.saturated.get(step.number, 0) + result
        if result is not None:
            for register in step.writes:
                if register not in self.zero_registers:
                    self.registers[register] = result

    def _instruction_at(self, step: DecodedInstruction, address: int) -> int:
        """The number of the instruction at an address. Errors: SimulationError."""
        table = step.instruction.table
        size = table.word_bits // 8 // table.address_bytes
        number, rest = divmod(address - self.code_address, size)
        if rest or not 0 <= number <= len(self.steps):
            raise SimulationError(
                f"{step.instruction.text()}: no instruction is at address {address}",
                where=place_of(step),
                fix="put the address of a label into the register",
            )
        return number

    def _checked_target(self, step: DecodedInstruction) -> int:
        if not 0 <= step.target <= len(self.steps):
            raise SimulationError(
                f"{step.instruction.text()}: branch to instruction {step.target} outside the "
                f"program of {len(self.steps)}"
            )
        return step.target

    def finished(self) -> WindowRun:
        """The results of the run so far."""
        finish = self.time + (1 if self.group else 0)
        cycles = max([finish, *(event.end for event in self.events)])
        if cycles > finish:
            self._stall(finish, cycles, WaitCause.DRAIN, len(self.steps) - 1)
        units = tuple(dict.fromkeys(event.unit for event in self.events))
        return WindowRun(
            cycles=cycles,
            issue_cycles=self.issue_cycles,
            instructions=self.issued,
            unit_busy=dict(self.unit_busy),
            event_table=_event_table(self.events, units),
            stall_table=_stall_table(self.stalls),
            units=units,
            registers=tuple(self.registers),
            memories=self.memories.arrays,
            saturated=dict(self.saturated),
        )


def _event_table(events: Sequence[Event], units: tuple[str, ...]) -> Table:
    rows = [(e.issue, e.start, e.end, units.index(e.unit), e.number) for e in events]
    return np.array(rows, np.int64).reshape(-1, 5)


def _stall_table(stalls: Sequence[WindowStall]) -> Table:
    causes = list(WaitCause)
    rows = [(s.start, s.stop, causes.index(s.cause), s.number) for s in stalls]
    return np.array(rows, np.int64).reshape(-1, 4)
