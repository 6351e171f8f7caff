"""Account for every cycle and byte of a simulated kernel: one vector of counters, then a report.

In: a prepared program. Out: a `Ledger`, which assigns counters to statements and turns their final
values into causes, which sum to the run's cycles, and traffic per tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.ir.nodes import Direction
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MatrixProduct
from tilewright.simulate import trace
from tilewright.simulate.kernel.program import PreparedProgram, TransferStatement

if TYPE_CHECKING:  # `state` imports `cost`, which imports this module
    from tilewright.simulate.kernel.state import Ask, KernelState, Slot

STATEMENTS, FLOPS, BARRIER, FETCH, FIXED = range(5)
"""The `FIXED` first counters, of every run: statements executed, useful flops of all cores, cycles
in barriers, and cycles of fetching instructions that other routines evicted.
"""

USEFUL, PADDING, OVERHEAD = 0, 1, 2
"""Offsets of a primitive's counters; only matrix products count other than overhead."""

ISSUE, LATENCY, BANDWIDTH, ENGINE, ASKED, MOVED, REQUESTS, TRANSFERS = range(8)
"""Offsets of the counters of a tensor's transfers in one direction."""


@dataclass(frozen=True)
class Cause:
    """Cycles charged to one cause; `subject` is the primitive or tensor, empty for barriers.

    Kinds: compute useful (flops at the cores' peak), compute padding (flops on elements beyond the
    tensors at peak), compute overhead (the rest of the matrix primitive), primitive (any other),
    dma issue (the core builds descriptors), wait latency (the engine is idle), wait bandwidth (the
    engine serves requests), barrier, instruction cache (lines of routines that evict each other),
    issue (no unit of a core with a window works).
    """

    kind: str
    subject: str
    cycles: int


@dataclass(frozen=True)
class TensorTraffic:
    """The transfers of one tensor in one direction, all cores together.

    `moved_bytes` counts whole memory transactions; `engine_cycles` are the engine's, serving them;
    the other cycles are the core's, issuing them and waiting for them.
    """

    tensor: str
    direction: Direction
    transfers: int
    requests: int
    asked_bytes: int
    moved_bytes: int
    engine_cycles: int
    issue_cycles: int
    wait_latency_cycles: int
    wait_bandwidth_cycles: int


class Ledger:
    """Assigns counters: `work_columns` and `move_columns` hold the first one of each statement."""

    def __init__(self, prepared: PreparedProgram) -> None:
        self._primitives: dict[type[Primitive], int] = {}
        self._tensors: dict[tuple[str, Direction], int] = {}
        self.columns = FIXED
        self.work_columns = [self._primitive(type(w.call.primitive)) for w in prepared.works]
        self.move_columns = [self._tensor(m.stmt.tensor, m.stmt.direction) for m in prepared.moves]

    def _primitive(self, kind: type[Primitive]) -> int:
        if kind not in self._primitives:
            self._primitives[kind] = self.columns
            self.columns += OVERHEAD + 1
        return self._primitives[kind]

    def _tensor(self, name: str, direction: Direction) -> int:
        if (name, direction) not in self._tensors:
            self._tensors[name, direction] = self.columns
            self.columns += TRANSFERS + 1
        return self._tensors[name, direction]

    def causes(self, counts: Sequence[int]) -> tuple[Cause, ...]:
        """Every cause with cycles, the largest first."""
        found = [
            Cause("barrier", "", counts[BARRIER]),
            Cause("instruction cache", "", counts[FETCH]),
        ]
        for kind, column in self._primitives.items():
            useful, padding, rest = counts[column : column + OVERHEAD + 1]
            overhead = "compute overhead" if kind is MatrixProduct else "primitive"
            causes = (("compute useful", useful), ("compute padding", padding), (overhead, rest))
            found += [Cause(cause, kind.name, cycles) for cause, cycles in causes]
        for row in self.traffic(counts):
            subject = f"{row.tensor} {row.direction}"
            found.append(Cause("dma issue", subject, row.issue_cycles))
            found.append(Cause("wait latency", subject, row.wait_latency_cycles))
            found.append(Cause("wait bandwidth", subject, row.wait_bandwidth_cycles))
        present = [cause for cause in found if cause.cycles]
        return tuple(sorted(present, key=lambda cause: -cause.cycles))

    def traffic(self, counts: Sequence[int]) -> tuple[TensorTraffic, ...]:
        """One row per tensor and direction, in the order of the program."""
        return tuple(
            TensorTraffic(
                tensor,
                direction,
                transfers=counts[column + TRANSFERS],
                requests=counts[column + REQUESTS],
                asked_bytes=counts[column + ASKED],
                moved_bytes=counts[column + MOVED],
                engine_cycles=counts[column + ENGINE],
                issue_cycles=counts[column + ISSUE],
                wait_latency_cycles=counts[column + LATENCY],
                wait_bandwidth_cycles=counts[column + BANDWIDTH],
            )
            for (tensor, direction), column in self._tensors.items()
        )


class Timeline:
    """Turns the executor's actions into events; with `limit` 0 it records nothing."""

    def __init__(self, limit: int) -> None:
        self._recorder = trace.Recorder(limit) if limit else None
        self._flights: dict[Slot, list[trace.Flight]] = {}
        self._occupancy = (-1, -1)

    def busy(self, activity: str, statement: str, start: int, cycles: int) -> None:
        """The core is busy with `activity` for `cycles`."""
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
        """The core resumed after a wait for `slot`."""
        if self._recorder:
            for flight in self._flights.pop(slot, []):
                self._recorder.add(replace(flight, waited_cycle=cycle))

    def repeated(self, loop: str, start: int, cycles: int, iterations: int) -> None:
        """Iterations were skipped; transfers in flight are not followed through them."""
        if self._recorder:
            self._land()
            self._recorder.add(trace.Repeated(start, cycles, loop, iterations))

    def occupancy(self, state: KernelState, used_bytes: Callable[[], int]) -> None:
        """Record the scratchpad bytes and slots in use, if they changed."""
        if self._recorder and self._recorder.open:
            now = (used_bytes(), len(state.pending))
            if now != self._occupancy:
                self._occupancy = now
                self._recorder.add(trace.Occupancy(state.now, *now))

    def close(self, end_cycle: int) -> trace.Trace | None:
        """The trace of the run; None if nothing is recorded."""
        self._land()
        return self._recorder.close(end_cycle) if self._recorder else None

    def _land(self) -> None:
        for flights in self._flights.values():
            for flight in flights:
                if self._recorder:
                    self._recorder.add(flight)
        self._flights.clear()
