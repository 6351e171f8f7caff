"""Record a kernel run: the executor's actions as trace events.

In: calls from the executor, in order of time. Out: a `Trace`, or None where nothing was to be
recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.simulate import trace
from tilewright.simulate.kernel.program import TransferStatement
from tilewright.simulate.kernel.state import Ask, KernelState, Slot


class Timeline:
    """Turns the executor's actions into events; without room (`limit` 0) it records nothing."""

    def __init__(self, limit: int) -> None:
        self._recorder = trace.Recorder(limit) if limit else None
        self._flights: dict[Slot, list[trace.Flight]] = {}
        self._occupancy = (-1, -1)

    def busy(self, activity: str, statement: str, start: int, cycles: int) -> None:
        """The core does something for `cycles`."""
        if self._recorder and cycles:
            self._recorder.add(trace.Busy(start, cycles, activity, statement))

    def stalled(
        self, move: TransferStatement, slot: Slot, cause: trace.StallCause, start: int, cycles: int
    ) -> None:
        """The core waits for the transfer that `move` started."""
        if self._recorder:
            self._recorder.add(trace.Stall(start, cycles, cause, move.stmt.tensor, *slot))

    def issued(self, move: TransferStatement, ask: Ask, issued: int, start: int) -> None:
        """A transfer was issued; the engine serves it from `start`."""
        if self._recorder:
            flight = trace.Flight(
                issued,
                start,
                ask.cost.service_cycles,
                move.stmt.direction,
                move.stmt.tensor,
                *ask.slot,
                ask.cost.asked_bytes,
            )
            self._flights.setdefault(ask.slot, []).append(flight)

    def waited(self, slot: Slot, cycle: int) -> None:
        """The core went on after a wait for `slot`."""
        if self._recorder:
            for flight in self._flights.pop(slot, []):
                self._recorder.add(replace(flight, waited_cycle=cycle))

    def repeated(self, loop: str, start: int, cycles: int, iterations: int) -> None:
        """Iterations were skipped: their transfers are not followed further."""
        if self._recorder:
            self._land()
            self._recorder.add(trace.Repeated(start, cycles, loop, iterations))

    def occupancy(self, state: KernelState, used_bytes: Callable[[], int]) -> None:
        """Record the amounts in use, if they changed."""
        if self._recorder and self._recorder.open:
            now = (used_bytes(), len(state.pending))
            if now != self._occupancy:
                self._occupancy = now
                self._recorder.add(trace.Occupancy(state.now, *now))

    def close(self, end_cycle: int) -> trace.Trace | None:
        """The trace of the run."""
        self._land()
        return self._recorder.close(end_cycle) if self._recorder else None

    def _land(self) -> None:
        for flights in self._flights.values():
            for flight in flights:
                if self._recorder:
                    self._recorder.add(flight)
        self._flights.clear()
