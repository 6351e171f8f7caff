"""The time of a kernel by its text: transfers by their addresses, calls by their assembly.

Events of all cores run on one clock in the order of their time. A request takes its core
`issue_cycles`, reaches the engine `latency_cycles` later, and is served behind those that came
before, transaction by transaction, at the addresses that the code computes. Where the blocks of one
statement's cores lie side by side and are no smaller than a transaction, the one that two of them
touch is moved once, as the machine file says of its engine. A core's instruction cache is empty at
the launch; routines lie one behind the other, as they are linked. The compiled C around the calls
is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from support.cross_check.compiled import missing, replay
from support.cross_check.layout import CALL, CORE, KIND, LINE, SUBJECT
from support.cross_check.recording import MOST_EVENTS, Recording, record
from support.cross_check.routines import CallTime, RoutineCycles
from tilewright.codegen.artifact import Artifact
from tilewright.common.errors import SimulationError
from tilewright.isa import load_table
from tilewright.isa.table import InstructionCache
from tilewright.machine import Machine


@dataclass(frozen=True)
class CheckedTime:
    """Cycles of a kernel on one core group, its routines in the instruction cache; `cold_cycles`
    are those with a cache that is empty at the launch, `repeated_cycles` those of a launch that
    follows its like; `statements` are those of all cores.
    """

    cycles: float
    cold_cycles: float
    repeated_cycles: float
    statements: int


def checked_time(
    artifact: Artifact, machine: Machine, most_statements: int = MOST_EVENTS
) -> CheckedTime:
    """The time of one kernel's artifact, by its text.

    Raises SimulationError where the code has more than `most_statements`, computes in C or has no
    routine for a product, and for a machine without an instruction table.
    """
    if machine.core.instruction_table is None:
        raise SimulationError(
            f"machine {machine.name!r} has no instruction table, so no time of code is known",
            fix="name one in core.instruction_table",
        )
    table, mesh = (
        load_table(machine.core.instruction_table),
        (machine.mesh.rows, machine.mesh.columns),
    )
    recording = record(artifact, mesh, most_statements)
    routines = RoutineCycles(artifact.files, table, mesh)
    numbers, calls = np.array(list(recording.calls), np.int64), list(recording.calls.values())
    times = _Times(numbers, [routines.time(call) for call in calls], table.instruction_cache)
    return CheckedTime(
        cycles=replayed(recording, machine, times.warm(recording.events)),
        cold_cycles=replayed(recording, machine, times.fetching(recording.events, launches=1)),
        repeated_cycles=replayed(recording, machine, times.fetching(recording.events, launches=2)),
        statements=len(recording.events),
    )


@dataclass(frozen=True)
class _Times:
    """The times of calls by their numbers, which ascend, on cores with this cache."""

    numbers: NDArray[np.int64]
    times: Sequence[CallTime]
    cache: InstructionCache | None

    def warm(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cycles of each event that is a call, negative where the cores do it together."""
        each = np.array([-t.cycles if t.together else t.cycles for t in self.times], np.int64)
        found, calls = np.zeros(len(events), np.int64), events[:, KIND] == CALL
        found[calls] = each[self._places(events[calls])]
        return found

    def fetching(self, events: NDArray[np.int64], launches: int) -> NDArray[np.int64]:
        """These cycles with the lines that each call misses, one after the other, in the last of
        so many launches.
        """
        found, calls = self.warm(events), events[:, KIND] == CALL
        if self.cache is None:
            return found
        lines = [time.lines for time in self.times]
        cores = np.tile(events[calls, CORE], launches)
        order = np.argsort(cores, kind="stable")
        places = np.tile(self._places(events[calls]), launches)
        missing = np.empty_like(places)
        missing[order] = missing_lines(cores[order], places[order], lines, self.cache)
        last = missing[len(missing) - np.count_nonzero(calls) :]
        found[calls] += np.where(found[calls] < 0, -1, 1) * last * self.cache.miss_cycles
        return found

    def _places(self, calls: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(self.numbers, calls[:, SUBJECT]), np.int64)


def missing_lines(
    cores: NDArray[np.int64],
    calls: NDArray[np.int64],
    lines: list[NDArray[np.int64]],
    cache: InstructionCache,
) -> NDArray[np.int64]:
    """Missing lines of each call; `calls` are numbers of `lines`, `cores` ascend."""
    ends = np.cumsum([len(own) for own in lines])
    flat = np.concatenate(lines) if lines else np.zeros(0, np.int64)
    starts = ends - [len(own) for own in lines]
    return np.asarray(missing(cores, calls, flat, starts, ends, cache.sets, cache.ways))


@dataclass(frozen=True)
class _Engine:
    """The numbers of a transfer engine, for gets and puts in cycles for a transaction."""

    transaction_bytes: int
    latency_cycles: int
    issue_cycles: int
    get_cycles: float
    put_cycles: float
    get_overhead: float
    put_overhead: float


def _engine_of(machine: Machine) -> _Engine:
    """The engine of a core group as its file describes it."""
    dma, clock = machine.dma, machine.clock_hz
    each = (dma.transaction_bytes * clock / e.peak_bytes_per_second for e in (dma.get, dma.put))
    overheads = (e.block_overhead_transactions for e in (dma.get, dma.put))
    return _Engine(dma.transaction_bytes, dma.latency_cycles, dma.issue_cycles, *each, *overheads)


def replayed(recording: Recording, machine: Machine, cycles: NDArray[np.int64]) -> float:
    """The cycle at which the last core ends. `cycles` are those of each event that is a call,
    negative where the cores do it together.
    """
    events, cores = recording.events, machine.cores
    counts = np.bincount(events[:, CORE], minlength=cores)
    ends = np.cumsum(counts)
    numbers = np.array(astuple(_engine_of(machine)), np.float64)
    return float(replay(events, _turns_of(events), cycles, ends - counts, ends, numbers))


def _turns_of(events: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often the core of each event has executed its line before."""
    order = np.lexsort((events[:, LINE], events[:, CORE]))
    lines = events[order][:, [CORE, LINE]]
    begins = np.flatnonzero(np.r_[True, (lines[1:] != lines[:-1]).any(axis=1)])
    turns = np.empty(len(events), np.int64)
    turns[order] = np.arange(len(events)) - np.repeat(begins, np.diff(np.r_[begins, len(events)]))
    return turns
