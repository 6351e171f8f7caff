"""The loops over events: transfers and cores on one clock, and lines of the instruction cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.cross_check import layout
from support.cross_check.layout import (
    BLOCK,
    CALL,
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
)
from tilewright.common.compiled import entry_point, piece

_TRANSACTION, _LATENCY, _ISSUE, _GET, _PUT, _GET_MORE, _PUT_MORE = range(7)
_PLACE_BITS, _WORD_BITS = 18, 32
"""Edges of blocks that are remembered, spread over so many places."""
_SPREAD = 2654435769
"""Of a word's bits the golden ratio: multiples of a power of two do not share places."""
_APART = 2246822519
"""A large prime by which equal places of two tensors differ."""


@entry_point(layout)
def replay(events: Any, turns: Any, cycles: Any, at: Any, ends: Any, numbers: Any) -> float:
    """The cycle at which the last core ends (`check.replayed`)."""
    cores = len(ends)
    clock, waiting = np.zeros(cores), np.zeros(cores, np.int64)
    done = np.zeros((cores, MOST_REPLIES))
    edges = np.full((1 << _PLACE_BITS, 3), -1, np.int64)
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
        else:
            clock[core] += numbers[_ISSUE]
            free = max(free, clock[core] + numbers[_LATENCY])
            free += _service(event, numbers, edges, turns[at[core]])
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
def _service(event: Any, numbers: Any, edges: Any, turn: int) -> float:
    """Cycles of one request: its transactions, those that a neighbour has moved left out."""
    size = int(numbers[_TRANSACTION])
    get = event[KIND] == GET
    each, overhead = numbers[_GET if get else _PUT], numbers[_GET_MORE if get else _PUT_MORE]
    start, block, total = event[MEMORY], event[BLOCK], 0.0
    for _ in range(event[SIZE] // block):
        end = start + block
        total += (end - 1) // size - start // size + 1 + overhead
        if block >= size:
            total -= start % size != 0 and _beside(edges, start, 0, event[LINE], turn)
            total -= end % size != 0 and _beside(edges, end, 1, event[LINE], turn)
        start = end + event[STRIDE]
    return float(total * each)


@piece
def _beside(edges: Any, address: int, at_end: int, line: int, turn: int) -> bool:
    """True if a block of the same statement lies at the other side of an address; else the address
    is remembered.
    """
    other = _place_of(address, 1 - at_end)
    if edges[other, 0] == address and edges[other, 1] == line and edges[other, 2] == turn:
        return True
    own = _place_of(address, at_end)
    edges[own, 0], edges[own, 1], edges[own, 2] = address, line, turn
    return False


@piece
def _place_of(address: int, at_end: int) -> int:
    """The place of one side of an address in the table of edges; tensors, which begin at multiples
    of a power of two, have places of their own.
    """
    word = address // 4 * 2 + at_end
    spread = (word + (word >> _WORD_BITS) * _APART) % (1 << _WORD_BITS) * _SPREAD
    return spread % (1 << _WORD_BITS) >> (_WORD_BITS - _PLACE_BITS)


@entry_point(layout)
def missing(
    cores: Any, calls: Any, lines: Any, starts: Any, ends: Any, sets: int, ways: int
) -> Any:
    """Missing lines of each call (`fetch.missing_lines`)."""
    held = np.full((sets, ways), -1, np.int64)
    found = np.zeros(len(calls), np.int64)
    for i in range(len(calls)):
        if i and cores[i] != cores[i - 1]:
            held[:] = -1
        for at in range(starts[calls[i]], ends[calls[i]]):
            own, place = held[lines[at] % sets], 0
            while place < ways - 1 and own[place] != lines[at]:
                place += 1
            found[i] += own[place] != lines[at]
            for behind in range(place, 0, -1):
                own[behind] = own[behind - 1]
            own[0] = lines[at]
    return found
