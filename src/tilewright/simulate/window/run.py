"""A family's operations on spans, and results of the window executor: cycles by cause, events and
values.

Issuing cycles and stalls by cause sum to the run's cycles, as do, for each unit of long operations,
its busy cycles and its idle cycles by cause. A table names the operations of its instructions
(`isa.Effect.OPERATION`); the object `OPERATIONS` of the family's module `operations` has their
meanings and the parameters of the table's expressions for cycles.
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
"""An operation on spans, in the table's order, which it changes in place, and on operand values by
role. It returns the value for register `d`, or how many elements of a span saturated."""


class Operations(Protocol):
    """Operations of a family on spans."""

    def parameters(self, machine: Machine) -> Mapping[str, float]:
        """The machine's numbers, by their names in expressions for cycles."""

    def meanings(self, machine: Machine) -> Mapping[str, Meaning]:
        """The meaning of each operation, by name."""


OPERATIONS: Capability[Operations] = Capability(
    "operations", ("parameters", "meanings"), "operations on spans of memories"
)


Table = NDArray[np.int64]


class WaitCause(StrEnum):
    """Why nothing issues, or why a unit is idle.

    The compiled pipeline has the first four, too. `WINDOW`: no slot is free. `SPANS`: an operation
    in flight uses the same elements. `DRAIN`: all has issued, operations are still in flight.
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
    """A long operation, instruction `number`: cycle of issue, first cycle, end after the last."""

    issue: int
    start: int
    end: int
    unit: str
    number: int


@dataclass(frozen=True, slots=True)
class WindowStall:
    """Cycles `start` .. `stop` - 1, in which one cause keeps instruction `number` from issuing."""

    start: int
    stop: int
    cause: WaitCause
    number: int


@dataclass(frozen=True, eq=False)
class WindowRun:
    """One run. `registers` are the final values, `memories` the final elements by name, and
    `saturated` counts, by instruction, the elements that did not fit their type.

    `event_table` has a row per long operation: issue, start, end, unit (index into `units`) and
    instruction. `stall_table` has a row per span without issue: start, stop, cause (index into
    `WaitCause`) and instruction.
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
        """The long operations, in order of issue."""
        rows = self.event_table.tolist()
        return tuple(Event(i, a, b, self.units[unit], number) for i, a, b, unit, number in rows)

    @cached_property
    def stalled(self) -> tuple[WindowStall, ...]:
        """The stalls, in order of time."""
        causes = tuple(WaitCause)
        return tuple(WindowStall(a, b, causes[c], n) for a, b, c, n in self.stall_table.tolist())

    @cached_property
    def stalls(self) -> dict[str, int]:
        """Cycles without issue by cause, in order of first occurrence."""
        start, stop, cause, _ = self.stall_table.T
        sums = np.bincount(cause, stop - start, len(WaitCause)).astype(np.int64).tolist()
        causes = tuple(WaitCause)
        return {causes[c].value: sums[c] for c in dict.fromkeys(cause.tolist())}

    def idle(self, unit: str) -> dict[str, int]:
        """The idle cycles of a unit of long operations, by cause.

        Until an operation issues, they have the cause that holds up issue; then the operation waits
        for spans. After the last operation the cause is `drain`.
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
        """Charge idle cycles before an issue to the stalls among them, the rest to issuing."""
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
        """Cycles in which two operations run at once, by their indices in `events`."""
        found: dict[tuple[int, int], int] = {}
        for i, first in enumerate(self.events):
            for j in range(i + 1, len(self.events)):
                second = self.events[j]
                cycles = min(first.end, second.end) - max(first.start, second.start)
                if cycles > 0:
                    found[i, j] = cycles
        return found


def _add(total: dict[str, int], cause: WaitCause, cycles: int) -> None:
    if cycles > 0:
        total[cause.value] = total.get(cause.value, 0) + cycles
