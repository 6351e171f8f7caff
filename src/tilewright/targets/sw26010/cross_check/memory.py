"""Transfers and cores on one clock: events of all cores in the order of their time.

In: a recording's events, the cycles of its calls, the numbers of the machine file. Out: when the
last core is done. A request takes its core `issue_cycles`, reaches the engine
`latency_cycles` later, and is served behind those that came before, transaction by transaction, at
the addresses that the code computes. Where the blocks of one statement's cores lie side by side and
are no smaller than a transaction, the one that two of them touch is moved once, as the machine file
says of its engine.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.machine import Machine
from tilewright.targets.sw26010.cross_check.compiled import replay
from tilewright.targets.sw26010.cross_check.layout import CORE
from tilewright.targets.sw26010.cross_check.recording import Recording


@dataclass(frozen=True)
class Memory:
    """The numbers of a transfer engine, for gets and puts in cycles for a transaction."""

    transaction_bytes: int
    latency_cycles: int
    issue_cycles: int
    get_cycles: float
    put_cycles: float
    get_overhead: float
    put_overhead: float


def memory_of(machine: Machine) -> Memory:
    """The engine of a core group as its file describes it."""
    dma, clock = machine.dma, machine.clock_hz
    each = (dma.transaction_bytes * clock / e.peak_bytes_per_second for e in (dma.get, dma.put))
    overheads = (e.block_overhead_transactions for e in (dma.get, dma.put))
    return Memory(dma.transaction_bytes, dma.latency_cycles, dma.issue_cycles, *each, *overheads)


def replayed(recording: Recording, machine: Machine, cycles: NDArray[np.int64]) -> float:
    """The cycle at which the last core ends. `cycles` are those of each event that is a call,
    negative where the cores do it together.
    """
    events, cores = recording.events, machine.cores
    counts = np.bincount(events[:, CORE], minlength=cores)
    ends = np.cumsum(counts)
    numbers = np.array(astuple(memory_of(machine)), np.float64)
    return float(replay(events, cycles, ends - counts, ends, numbers))
