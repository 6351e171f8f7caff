"""Typed events of one simulated run, for timelines.

In: events in the order of simulation. Out: a `Trace` whose core events (busy, stalled, repeated,
omitted) follow each other without gap or overlap, so their cycles sum to the run's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tilewright.ir.nodes import Direction

StallCause = Literal["latency", "bandwidth"]


@dataclass(frozen=True)
class Busy:
    """The core computes, issues a transfer or synchronises."""

    start_cycle: int
    cycles: int
    activity: str
    statement: str


@dataclass(frozen=True)
class Stall:
    """The core waits for a slot while the engine is idle (latency) or serves (bandwidth)."""

    start_cycle: int
    cycles: int
    cause: StallCause
    tensor: str
    buffer: str
    slot: int


@dataclass(frozen=True)
class Flight:
    """One transfer of all cores: issued, served by the engine from `start_cycle`, waited for.

    `waited_cycle` is when the core resumed after the wait; None if that iteration was not simulated
    in detail.
    """

    issue_cycle: int
    start_cycle: int
    cycles: int
    direction: Direction
    tensor: str
    buffer: str
    slot: int
    asked_bytes: int
    waited_cycle: int | None = None


@dataclass(frozen=True)
class Occupancy:
    """Occupancy from `cycle` on: scratchpad bytes of a core, and slots with transfers in flight."""

    cycle: int
    scratchpad_bytes: int
    outstanding: int


@dataclass(frozen=True)
class Repeated:
    """`iterations` of a loop that repeat earlier ones, which were simulated in detail."""

    start_cycle: int
    cycles: int
    loop: str
    iterations: int


@dataclass(frozen=True)
class Omitted:
    """The rest of the run, after the trace reached its limit."""

    start_cycle: int
    cycles: int


CoreEvent: TypeAlias = Busy | Stall | Repeated | Omitted
Event: TypeAlias = CoreEvent | Flight | Occupancy


@dataclass(frozen=True)
class Trace:
    """The events of a run, in order of time."""

    events: tuple[Event, ...]


class Recorder:
    """Collects events up to `limit`; of the rest, only the total cycles are kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._events: list[Event] = []
        self._cut_cycle: int | None = None

    def add(self, event: Event) -> None:
        """Append an event; consecutive repetitions of one loop are merged."""
        if self._cut_cycle is not None:
            # A flight is added when waited for, perhaps after the cut though issued before it.
            if isinstance(event, Flight) and event.issue_cycle < self._cut_cycle:
                self._events.append(event)
            return
        last = self._events[-1] if self._events else None
        if isinstance(event, Repeated) and isinstance(last, Repeated) and last.loop == event.loop:
            self._events[-1] = replace(
                last,
                cycles=last.cycles + event.cycles,
                iterations=last.iterations + event.iterations,
            )
        elif len(self._events) < self._limit or not isinstance(event, CoreEvent):
            self._events.append(event)
        else:
            self._cut_cycle = event.start_cycle

    @property
    def open(self) -> bool:
        """True if further events are kept."""
        return self._cut_cycle is None

    def close(self, end_cycle: int) -> Trace:
        """The trace of a run that ended at `end_cycle`."""
        rest: tuple[Event, ...] = ()
        if self._cut_cycle is not None:
            rest = (Omitted(self._cut_cycle, end_cycle - self._cut_cycle),)
        return Trace(tuple(sorted((*self._events, *rest), key=_start)))


def _start(event: Event) -> int:
    match event:
        case Flight():
            return event.issue_cycle
        case Occupancy():
            return event.cycle
        case _:
            return event.start_cycle
