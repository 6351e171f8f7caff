"""The time of a kernel by its emitted text: transfers by their addresses, calls by their assembly.

The text is also replayed as the cost model sees it: with each core's requests as large as those of
core (0, 0), with these on whole transactions, and with cores that wait for each other. What each
step takes off says why a price is off; what is left after all of them is an error of a price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.artifact import Artifact
from tilewright.common.errors import SimulationError
from tilewright.isa import load_table
from tilewright.isa.table import InstructionCache
from tilewright.machine import Machine
from tilewright.targets.sw26010.cross_check.fetch import missing_lines
from tilewright.targets.sw26010.cross_check.layout import CALL, CORE, KIND, LINE, MEMORY, SUBJECT
from tilewright.targets.sw26010.cross_check.memory import TEXT, View, replayed
from tilewright.targets.sw26010.cross_check.recording import MOST_EVENTS, record
from tilewright.targets.sw26010.cross_check.routines import CallTime, RoutineCycles


@dataclass(frozen=True)
class CheckedTime:
    """Cycles of a kernel on one core group: as its text has it, with the requests of every core as
    large as those of core (0, 0), these on whole transactions besides, and cores in step besides.
    `cold_cycles` are the text's with an instruction cache that is empty at the launch, `statements`
    those of all cores.
    """

    cycles: float
    cold_cycles: float
    even_cycles: float
    aligned_cycles: float
    modelled_cycles: float
    statements: int

    def cause(self) -> str:
        """The largest part of what lies between the text and the model's view of it; empty where
        none is `SMALL` or more."""
        steps = (self.cycles, self.even_cycles, self.aligned_cycles, self.modelled_cycles)
        parts = [abs(after - before) / self.cycles for before, after in pairwise(steps)]
        return CAUSES[parts.index(max(parts))] if max(parts) >= SMALL else ""


SMALL = 0.01
"""The share of the time from which on a part of it is a cause."""
UNEVEN = "cores that move less than core (0, 0)"
INSIDE = "blocks that start inside a transaction or touch each other"
AHEAD = "cores that go on before others are served"
CAUSES = (UNEVEN, INSIDE, AHEAD)
_LINE_BITS, _CORE_BITS = 28, 50


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
    even = replace(recording, events=_even(recording.events, machine.cores))
    evenly = np.tile(times.slowest(recording.events), machine.cores)
    return CheckedTime(
        cycles=replayed(recording, machine, times.warm(recording.events)),
        cold_cycles=replayed(recording, machine, times.cold(recording.events)),
        even_cycles=replayed(even, machine, evenly, TEXT),
        aligned_cycles=replayed(even, machine, evenly, View(aligned=True)),
        modelled_cycles=replayed(even, machine, evenly, View(aligned=True, in_step=True)),
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

    def cold(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """These cycles with the lines that each call misses, one after the other."""
        found, calls = self.warm(events), events[:, KIND] == CALL
        if self.cache is None:
            return found
        lines = [time.lines for time in self.times]
        missing = missing_lines(events[calls, CORE], self._places(events[calls]), lines, self.cache)
        found[calls] += np.where(found[calls] < 0, -1, 1) * missing * self.cache.miss_cycles
        return found

    def slowest(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cycles of core (0, 0)'s events: of each call those of the core that takes longest."""
        own, calls, found = events[:, CORE] == 0, events[:, KIND] == CALL, self.warm(events)
        occasions = _keys(events) & (1 << _CORE_BITS) - 1
        _, places = np.unique(occasions[calls], return_inverse=True)
        most = np.zeros(len(events), np.int64)
        np.maximum.at(most, places, np.abs(found[calls]))
        found[calls] = np.where(found[calls] < 0, -1, 1) * most[places]
        of_core: NDArray[np.int64] = found[own]
        return of_core

    def _places(self, calls: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(self.numbers, calls[:, SUBJECT]), np.int64)


def _even(events: NDArray[np.int64], cores: int) -> NDArray[np.int64]:
    """The events of core (0, 0) on every core, requests at the core's own places where it has the
    like.
    """
    keys = _keys(events)
    own = events[:, CORE] == 0
    found, wanted = np.tile(events[own], (cores, 1)), np.tile(keys[own], cores)
    found[:, CORE] = np.repeat(np.arange(cores), own.sum())
    wanted += found[:, CORE] << _CORE_BITS
    order = np.argsort(keys)
    at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    like = keys[at] == wanted
    found[like, MEMORY] = events[at[like], MEMORY]
    return found


def _keys(events: NDArray[np.int64]) -> NDArray[np.int64]:
    """Core, line and how often the core was there before, of each event, in one number."""
    named = (events[:, CORE] << _CORE_BITS) + (events[:, LINE] << _LINE_BITS)
    order = np.argsort(named, kind="stable")
    starts = np.flatnonzero(np.diff(named[order], prepend=-1))
    before = np.arange(len(named)) - np.repeat(starts, np.diff(starts, append=len(named)))
    named[order] += before
    return named
