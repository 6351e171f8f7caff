"""Operations of a family on spans, and results of a run of the window executor: cycles, each with
its cause, events and values.

Issuing cycles and stalls by cause sum to the cycles; for every unit of long operations, busy
cycles and idle cycles by cause do. A table names the operations of its instructions
(`isa.Effect.OPERATION`); the family's module `operations` has an object `OPERATIONS` with their
meanings and with the parameters that occur in the table's expressions of cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.machine import Capability, Machine

Span = NDArray[Any]
Meaning = Callable[[Sequence[Span], Mapping[str, int]], int | None]
"""An operation: the spans in the table's order, which it changes, and the values of its operands by
role; what it returns goes into the register `d`, or is how many elements of a span saturated."""


class Operations(Protocol):
    """A family with operations on spans."""

    def parameters(self, machine: Machine) -> Mapping[str, float]:
        """The machine's numbers by the names that expressions of cycles have for them."""

    def meanings(self, machine: Machine) -> Mapping[str, Meaning]:
        """Each operation's meaning, by its name."""


OPERATIONS: Capability[Operations] = Capability(
    "operations", ("parameters", "meanings"), "operations on spans of memories"
)


Table = NDArray[np.int64]


class WaitCause(StrEnum):
    """Why nothing is issued, or why a unit is idle.

    The first four are those of the compiled pipeline. `WINDOW`: no slot is free. `SPANS`: an
    operation in flight uses the same elements. `DRAIN`: all is issued, operations are in flight.
    """

    DATA = "data_hazard"
    OUTPUT = "output_hazard"
    UNIT = "unit_busy"
    BRANCH = "branch"
    WINDOW = "window_full"
    SPANS = "span_hazard"
    DRAIN = "drain"
    ISSUING = "issuing"


@dataclass(frozen=True, slots=True)
class Event:
    """A long operation: the cycle of its issue, and its first cycle and the one behind its last."""

    issue: int
    start: int
    end: int
    unit: str
    number: int


@dataclass(frozen=True, slots=True)
class WindowStall:
    """Cycles `start` .. `stop` - 1, in which instruction `number` does not issue for one cause."""

    start: int
    stop: int
    cause: WaitCause
    number: int


@dataclass(frozen=True, eq=False)
class WindowRun:
    """One run. `registers` are the final values, `memories` the final elements by name, `saturated`
    the numbers of elements that did not fit their type by instruction.

    Rows of `event_table` are issue, start, end, unit and instruction of each long operation, units
    by their places in `units`; those of `stall_table` start, stop, cause (by its place in
    `WaitCause`) and instruction of each run of cycles without issue.
    """

    cycles: int
    issue_cycles: int
    instructions: int
    unit_busy: dict[str, int]
    event_table: Table
    stall_table: Table
    units: tuple[str, ...]
    registers: tuple[int, ...]
    memories: Mapping[str, NDArray[Any]] = field(repr=False)
    saturated: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The long operations in the order of issue."""
        rows = self.event_table.tolist()
        return tuple(Event(i, a, b, self.units[unit], number) for i, a, b, unit, number in rows)

    @cached_property
    def stalled(self) -> tuple[WindowStall, ...]:
        """The cycles without issue in order."""
        causes = tuple(WaitCause)
        return tuple(WindowStall(a, b, causes[c], n) for a, b, c, n in self.stall_table.tolist())

    @cached_property
    def stalls(self) -> dict[str, int]:
        """Cycles without issue by cause, in the order in which these came up."""
        start, stop, cause, _ = self.stall_table.T
        sums = np.bincount(cause, stop - start, len(WaitCause)).astype(np.int64).tolist()
        causes = tuple(WaitCause)
        return {causes[c].value: sums[c] for c in dict.fromkeys(cause.tolist())}

    def idle(self, unit: str) -> dict[str, int]:
        """The idle cycles of a unit of long operations by cause.

        Before an operation is issued the cause is what holds issue up, afterwards the operation
        waits for spans. Behind the last operation the cause is `drain`.
        """
        total: dict[str, int] = {}
        free, place = 0, 0
        for event in (event for event in self.events if event.unit == unit):
            held = max(free, min(event.issue, event.start))
            place = self._charge(free, held, place, total)
            _add(total, WaitCause.SPANS, event.start - held)
            free = event.end
        _add(total, WaitCause.DRAIN, self.cycles - free)
        return total

    def _charge(self, start: int, stop: int, place: int, total: dict[str, int]) -> int:
        """Charge idle cycles before an issue to the stalls in them, the rest to issuing."""
        rest = stop - start
        while place < len(self.stalled) and self.stalled[place].start < stop:
            stall = self.stalled[place]
            cycles = min(stall.stop, stop) - max(stall.start, start)
            if cycles > 0:
                _add(total, stall.cause, cycles)
                rest -= cycles
            if stall.stop > stop:
                break
            place += 1
        _add(total, WaitCause.ISSUING, rest)
        return place

    def overlaps(self) -> dict[tuple[int, int], int]:
        """Cycles in which two operations run at once, by their places in `events`."""
        found: dict[tuple[int, int], int] = {}
        for i, first in enumerate(self.events):
            for j in range(i + 1, len(self.events)):
                second = self.events[j]
                if second.issue >= first.end and second.start >= first.end:
                    continue
                cycles = min(first.end, second.end) - max(first.start, second.start)
                if cycles > 0:
                    found[i, j] = cycles
        return found


def _add(total: dict[str, int], cause: WaitCause, cycles: int) -> None:
    if cycles > 0:
        total[cause.value] = total.get(cause.value, 0) + cycles
