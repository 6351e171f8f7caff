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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.compiled import entry_point, piece
from tilewright.machine import Machine
from tilewright.targets.sw26010.cross_check.recording import (
    BLOCK,
    CALL,
    CORE,
    GET,
    KIND,
    LINE,
    MEMORY,
    MOST_REPLIES,
    SIZE,
    STRIDE,
    SUBJECT,
    SYNCHRONISE,
    WAIT,
    Recording,
)

_TRANSACTION, _LATENCY, _ISSUE, _GET, _PUT, _GET_MORE, _PUT_MORE = range(7)
_ALIGNED, _IN_STEP = 7, 8
_PLACES = 1 << 16
"""Edges of blocks that are remembered, by the last bits of their addresses."""


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


@dataclass(frozen=True)
class View:
    """How events are taken: each request as if it began a transaction, blocks without a gap as one
    (`aligned`), and cores that go on from a wait together, with the requests of one statement at
    once (`in_step`).
    """

    aligned: bool = False
    in_step: bool = False


TEXT = View()


def replayed(
    recording: Recording, machine: Machine, cycles: NDArray[np.int64], view: View = TEXT
) -> float:
    """The cycle at which the last core ends. `cycles` are those of each event that is a call,
    negative where the cores do it together.
    """
    events, cores = recording.events, machine.cores
    counts = np.bincount(events[:, CORE], minlength=cores)
    ends = np.cumsum(counts)
    numbers = np.array([*astuple(memory_of(machine)), *astuple(view)], np.float64)
    return float(_replay(events, cycles, ends - counts, ends, numbers))


@entry_point()
def _replay(events: Any, cycles: Any, at: Any, ends: Any, numbers: Any) -> float:
    cores, in_step = len(ends), numbers[_IN_STEP] > 0
    clock, waiting = np.zeros(cores), np.zeros(cores, np.int64)
    done, requests = np.zeros((cores, MOST_REPLIES)), np.zeros(cores, np.int64)
    edges = np.full((_PLACES, 3), -1, np.int64)
    free = 0.0
    while True:
        core = _next(clock, waiting, at, ends)
        if core < 0:
            if not waiting.any():
                return float(clock.max())
            _meet(cycles, clock, waiting, at)
            continue
        event, kind = events[at[core]], events[at[core], KIND]
        if kind == CALL and cycles[at[core]] >= 0:
            clock[core] += cycles[at[core]]
        elif kind in (CALL, SYNCHRONISE):
            waiting[core] = 1
            continue
        elif kind == WAIT:
            clock[core] = max(clock[core], done[core, event[SUBJECT]])
            if in_step:
                waiting[core] = 1
                continue
        else:
            requests[core] += 1
            clock[core] += numbers[_ISSUE]
            behind = _behind(events, at[core], ends[core]) if in_step else 0
            free = max(free, clock[core] + behind * numbers[_ISSUE] + numbers[_LATENCY])
            free += _service(event, numbers, edges, requests[core])
            done[core, event[SUBJECT]] = free
        at[core] += 1


@piece
def _next(clock: Any, waiting: Any, at: Any, ends: Any) -> int:
    """The core that is behind all others that can go on; -1 where none can."""
    found = -1
    for core in range(len(clock)):
        free = not waiting[core] and at[core] < ends[core]
        if free and (found < 0 or clock[core] < clock[found]):
            found = core
    return found


@piece
def _behind(events: Any, at: int, end: int) -> int:
    """Requests of the same statement that the core issues next."""
    count = 0
    while at + count + 1 < end and events[at + count + 1, LINE] == events[at, LINE]:
        count += 1
    return count


@piece
def _meet(cycles: Any, clock: Any, waiting: Any, at: Any) -> None:
    """All waiting cores do their call together, from the time of the last one."""
    latest = 0.0
    for core in range(len(clock)):
        if waiting[core]:
            latest = max(latest, clock[core])
    for core in range(len(clock)):
        if waiting[core]:
            clock[core] = latest - cycles[at[core]]
            waiting[core] = 0
            at[core] += 1


@piece
def _service(event: Any, numbers: Any, edges: Any, request: int) -> float:
    """Cycles of one request: its transactions, those that a neighbour has moved left out."""
    size = int(numbers[_TRANSACTION])
    get = event[KIND] == GET
    each, overhead = numbers[_GET if get else _PUT], numbers[_GET_MORE if get else _PUT_MORE]
    aligned, start, total = numbers[_ALIGNED] > 0, event[MEMORY], 0.0
    origin = start % size if aligned else 0
    block = event[SIZE] if aligned and event[STRIDE] == 0 else event[BLOCK]
    for _ in range(event[SIZE] // block):
        end = start + block
        total += (end - origin - 1) // size - (start - origin) // size + 1 + overhead
        if block >= size:
            inside = (block if aligned else start) % size != 0
            total -= inside and _beside(edges, start, 0, event[LINE], request)
            inside = (block if aligned else end) % size != 0
            total -= inside and _beside(edges, end, 1, event[LINE], request)
        start = end + event[STRIDE]
    return float(total * each)


@piece
def _beside(edges: Any, address: int, at_end: int, line: int, request: int) -> bool:
    """True if a block of the same statement lies at the other side of an address; else the address
    is remembered.
    """
    other = (address // 4 * 2 + 1 - at_end) % _PLACES
    if edges[other, 0] == address and edges[other, 1] == line and edges[other, 2] == request:
        return True
    own = (address // 4 * 2 + at_end) % _PLACES
    edges[own, 0], edges[own, 1], edges[own, 2] = address, line, request
    return False
