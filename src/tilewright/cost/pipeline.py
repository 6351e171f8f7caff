"""How a nest's loops overlap: the compiled composition of item costs into elapsed cycles.

In: the items of a chain of loops (calls, gets and puts before and after the loop inside, level by
level), what each costs for every kind of iteration, and how often each loop runs. Out: cycles of
every candidate. Each level is played through for a few iterations with the core's clock, the
engine's queue and the arrival of what was fetched ahead, the loop inside being one opaque step; the
steady state is extrapolated. So fill, steady state and drain come from the order of the generated
code, not from a maximum of two sums. Only `play` allocates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.common.compiled import entry_point, piece
from tilewright.cost import pipeline_rows, pipeline_types
from tilewright.cost.pipeline_rows import (
    happens,
    iterations_of,
    kind_after,
    last_kinds,
    row_of,
    times_of,
    totals,
)
from tilewright.cost.pipeline_types import CALL, COPY, GET, PUT, Candidate, Clock

_PLAYED = 2
_BACKLOG = 1e15
_SUMMARY = 5  # elapsed, engine busy, headroom, engine's lead over the clock, last store


@piece
def _mark_looped(candidate: Any, kinds: Any, looped: Any) -> None:
    """Whether any loop around each level runs more than once; if none does there is nothing to
    overlap.
    """
    looped[0] = False
    for d in range(len(candidate.nest.loops.kinds)):
        looped[d + 1] = looped[d] or iterations_of(candidate, kinds, d) > 1.0


@piece
def _fetch_next(candidate: Any, clock: Any, item: int) -> None:
    """Fetch the tile of the next iteration, if there is one: the innermost loop that goes on has
    its next kind of iteration, the loops inside it start again.
    """
    items, time = candidate.nest.items, clock.time
    last = items.level[item] - 1
    while last >= 0 and clock.following[last] < 0:
        last -= 1
    if last < 0:
        return
    rows = items.rows
    row = rows.base[item]
    if rows.varies[item]:
        for d in range(last):
            row += rows.strides[item, d] * clock.kinds[d]
        row += rows.strides[item, last] * clock.following[last]
    cost = items.service[row, candidate.tile]
    time[0] += items.issue[row, candidate.tile]
    time[1] = max(time[1], time[0] + candidate.latency) + cost
    time[2] += cost
    clock.arrived[items.buffer[item]] = time[1]


@piece
def _items(candidate: Any, clock: Any, span: Any, looped: bool) -> None:
    """Play the items of a span."""
    items, time = candidate.nest.items, clock.time
    for item in range(span[0], span[1]):
        row = row_of(items.rows, item, clock.kinds)
        cost = items.service[row, candidate.tile]
        if items.kind[item] == CALL or items.kind[item] == COPY:
            time[0] += cost
        elif cost > 0.0:
            b = items.buffer[item]
            if items.kind[item] == GET and candidate.double[b] and looped:
                time[0] = max(time[0], clock.arrived[b])
                _fetch_next(candidate, clock, item)
                continue
            time[0] += items.issue[row, candidate.tile]
            time[1] = max(time[1], time[0] + candidate.latency) + cost
            time[2] += cost
            if items.kind[item] == GET or not looped:
                time[0] = time[1]
            else:
                clock.stored[b, 0] = clock.stored[b, 1]
                clock.stored[b, 1] = time[1]


@piece
def _reuse(candidate: Any, clock: Any, span: Any) -> None:
    """Wait until the slots that the span's stores leave from may be written again."""
    for item in range(span[0], span[1]):
        if candidate.nest.items.kind[item] == PUT:
            b = candidate.nest.items.buffer[item]
            due = clock.stored[b, 0] if candidate.double[b] else clock.stored[b, 1]
            clock.time[0] = max(clock.time[0], due)


@piece
def _iteration(candidate: Any, clock: Any, level: int, summaries: Any) -> None:
    """Play one run of the body at `level`. Loops of one iteration dissolve; the first real one
    inside is opaque.
    """
    nest, loops, deep = candidate.nest, len(candidate.nest.loops.kinds), level
    while deep < loops and iterations_of(candidate, clock.kinds, deep) == 1.0:
        deep += 1
    if clock.looped[level]:
        for d in range(level, deep + 1):
            _reuse(candidate, clock, nest.before[d])
            _reuse(candidate, clock, nest.after[d])
    for d in range(level, deep + 1):
        _items(candidate, clock, nest.before[d], clock.looped[d])
    if deep < loops:
        goes_on = _goes_on(clock, deep)
        place = _place(nest, clock.kinds, deep) if goes_on else summaries.shape[1] - 1
        _opaque(clock, deep, summaries[deep, place])
    for d in range(deep, level - 1, -1):
        _items(candidate, clock, nest.after[d], clock.looped[d])


@piece
def _goes_on(clock: Any, loops: int) -> bool:
    """Whether any of the outermost `loops` loops has another iteration."""
    going_on = False
    for d in range(loops):
        going_on = going_on or clock.following[d] >= 0
    return going_on


@piece
def _opaque(clock: Any, loop: int, inner: Any) -> None:
    """Run a summarised loop: not before its last stores have left, late by the backlog it can not
    absorb.
    """
    time = clock.time
    start = max(time[0], clock.left[loop])
    free = time[1]
    end = start + inner[0] + max(0.0, free - start - inner[2])
    if inner[1] > 0.0:
        end = max(end, max(start, free) + inner[1] - max(0.0, inner[3]))
        time[1] = max(end + inner[3], max(free, start) + inner[1])
        clock.left[loop] = end + inner[4]
    time[0] = end
    time[2] += inner[1]


@piece
def _place(nest: Any, kinds: Any, loops: int) -> int:
    """The number of a combination of kinds of the outermost `loops` loops."""
    place = 0
    for d in range(loops):
        place = place * nest.loops.kinds[d] + kinds[d]
    return place


@piece
def _loop(candidate: Any, clock: Any, loop: int, summaries: Any) -> float:
    """Play all iterations of a loop, a few of each kind in full, the steady state extrapolated.

    The last one of a kind is played apart: what it fetches is of the next kind, or the end. Returns
    when the second iteration of the first kind ended, negative where there is but one.
    """
    kinds, time, second = candidate.nest.loops.kinds[loop], clock.time, -1.0
    for kind in range(kinds):
        times = times_of(candidate, clock.kinds, loop, kind)
        if times == 0.0:
            continue
        clock.kinds[loop] = clock.following[loop] = kind
        played = 0.0
        now, busy = time[0], time[2]
        while played < times - 1.0 and played < _PLAYED:
            now, busy = time[0], time[2]
            _iteration(candidate, clock, loop + 1, summaries)
            played += 1.0
        if kind == 0 and played == _PLAYED:
            second = time[0]
        period = 1.0
        if times - 1.0 > _PLAYED and _stores_twice(candidate, clock.kinds, loop + 1):
            now, busy = time[0], time[2]
            period = min(2.0, times - 1.0 - played)
            for _ in range(int(period)):
                _iteration(candidate, clock, loop + 1, summaries)
            played += period
        rest = times - 1.0 - played
        if rest > 0.0:
            _extrapolate(clock, now, busy, rest / period)
        clock.following[loop] = kind_after(candidate, clock.kinds, loop, kind)
        _iteration(candidate, clock, loop + 1, summaries)
    clock.kinds[loop] = 0
    return second


@piece
def _extrapolate(clock: Any, now: float, busy: float, times: float) -> None:
    """Repeat what happened since the clock stood at `now`."""
    time = clock.time
    shift = (time[0] - now) * times
    time[0] += shift
    time[1] += shift
    time[2] += (time[2] - busy) * times
    _shift_due(clock, shift)


@piece
def _stores_twice(candidate: Any, kinds: Any, level: int) -> bool:
    """Whether the body at `level` stores from two slots: its steady state takes two iterations,
    from the third on, when both have been stored from.
    """
    nest, items = candidate.nest, candidate.nest.items
    for item in range(nest.after[level, 0], nest.after[level, 1]):
        if items.kind[item] == PUT and candidate.double[items.buffer[item]]:
            return True
    for item in range(nest.before[level, 0], nest.before[level, 1]):
        if items.kind[item] == PUT and candidate.double[items.buffer[item]]:
            return True
    if level < len(nest.loops.kinds) and iterations_of(candidate, kinds, level) == 1.0:
        return _stores_twice(candidate, kinds, level + 1)
    return False


@piece
def _shift_due(clock: Any, shift: float) -> None:
    """What is under way ends later."""
    for b in range(len(clock.arrived)):
        clock.arrived[b] += shift
        clock.stored[b, 0] += shift
        clock.stored[b, 1] += shift
    for d in range(len(clock.left)):
        clock.left[d] += shift


@piece
def _reset(clock: Any) -> None:
    for i in range(len(clock.time)):
        clock.time[i] = 0.0
    for b in range(len(clock.arrived)):
        clock.arrived[b] = clock.stored[b, 0] = clock.stored[b, 1] = 0.0
    for d in range(len(clock.left)):
        clock.left[d] = 0.0


@piece
def _summarise(
    candidate: Any, clock: Any, loop: int, ending: bool, summaries: Any, out: Any
) -> None:
    """Summarise a loop that starts with its data there and no store under way, and the backlog it
    absorbs. The loops around go on with their like, or are `ending`.
    """
    time = clock.time
    _reset(clock)
    for d in range(len(clock.following)):
        goes_on = d < loop and not ending and iterations_of(candidate, clock.kinds, d) > 1.0
        clock.following[d] = clock.kinds[d] if goes_on else -1
    second = _loop(candidate, clock, loop, summaries)
    out[0], out[1], out[2] = time[0], time[2], _BACKLOG
    out[3] = out[4] = 0.0
    if time[2] > 0.0:
        out[3] = time[1] - time[0]
        out[4] = _leaving(candidate, clock) - time[0]
        out[2] = _BACKLOG - _late(candidate, clock, loop, summaries, second)


@piece
def _leaving(candidate: Any, clock: Any) -> Any:
    """When the last store from a slot that the next run writes first ends."""
    last = 0.0
    for d in range(len(clock.left)):
        last = max(last, clock.left[d])
    for b in range(len(candidate.double)):
        last = max(last, clock.stored[b, 0] if candidate.double[b] else clock.stored[b, 1])
    return last


@piece
def _late(candidate: Any, clock: Any, loop: int, summaries: Any, second: float) -> float:
    """How much later two iterations end when the engine has a huge backlog at the start.

    `second` is when they end without one, negative where that is not known.
    """
    if second < 0.0:
        second = _second(candidate, clock, loop, summaries, 0.0)
    return _second(candidate, clock, loop, summaries, _BACKLOG) - second


@piece
def _second(candidate: Any, clock: Any, loop: int, summaries: Any, backlog: float) -> float:
    """When the second of two iterations ends that start with a backlog of the engine."""
    _reset(clock)
    clock.time[1] = backlog
    clock.following[loop] = clock.kinds[loop]
    for _ in range(_PLAYED):
        _iteration(candidate, clock, loop + 1, summaries)
    return float(clock.time[0])


@piece
def _fill(candidate: Any, clock: Any) -> None:
    """Fetch what is fetched before the loops, and wait for all of it."""
    nest, items, time = candidate.nest, candidate.nest.items, clock.time
    for level in range(1, len(nest.loops.kinds) + 1):
        span = nest.before[level]
        for item in range(span[0], span[1] if clock.looped[level] else span[0]):
            if items.kind[item] == GET and candidate.double[items.buffer[item]]:
                time[2] += items.service[row_of(items.rows, item, clock.kinds), candidate.tile]
    if time[2] > 0.0:
        time[0] = time[1] = time[2] + candidate.latency


@piece
def _all_loops(candidate: Any, clock: Any, summaries: Any) -> None:
    """Summaries of every loop, innermost first, for every combination of kinds of the loops around
    it, and for its very last run.
    """
    nest = candidate.nest
    for loop in range(len(nest.loops.kinds) - 1, -1, -1):
        combinations = 1
        for d in range(loop):
            combinations *= nest.loops.kinds[d]
        for place in range(combinations if clock.looped[loop] else 0):
            rest = place
            clock.kinds[:] = 0
            for d in range(loop - 1, -1, -1):
                clock.kinds[d] = rest % nest.loops.kinds[d]
                rest //= nest.loops.kinds[d]
            if (
                happens(candidate, clock.kinds, loop)
                and iterations_of(candidate, clock.kinds, loop) > 1.0
            ):
                _summarise(candidate, clock, loop, False, summaries, summaries[loop, place])
        last_kinds(candidate, clock.kinds, loop)
        if iterations_of(candidate, clock.kinds, loop) > 1.0:
            _summarise(candidate, clock, loop, True, summaries, summaries[loop, -1])
    clock.kinds[:] = 0


@entry_point(pipeline_types, pipeline_rows)
def play(
    nest: Any, doubles: Any, wanted: Any, latency: float, cycles: Any, compute: Any, busy: Any
) -> None:
    """Fill `cycles[c, j]`, and the cycles of all calls and of all transfers, for the wanted copies
    c and tiles j.
    """
    loops, combinations = len(nest.loops.kinds), 1
    for d in range(loops):
        combinations *= nest.loops.kinds[d]
    summaries = np.zeros((loops + 1, combinations + 1, _SUMMARY))
    buffers = doubles.shape[1]
    clock = Clock(
        np.zeros(3),
        np.zeros(buffers),
        np.zeros((buffers, 2)),
        np.zeros(max(loops, 1), np.int64),
        np.full(max(loops, 1), -1, np.int64),
        np.zeros(loops + 1, np.bool_),
        np.zeros(loops + 1),
    )
    for c in range(doubles.shape[0]):
        for j in range(nest.loops.counts.shape[1]):
            if not wanted[c, j]:
                continue
            candidate = Candidate(nest, doubles[c], j, latency)
            _mark_looped(candidate, clock.kinds, clock.looped)
            _all_loops(candidate, clock, summaries)
            _reset(clock)
            _fill(candidate, clock)
            _iteration(candidate, clock, 0, summaries)
            cycles[c, j] = max(clock.time[0], clock.time[1])
            compute[c, j], busy[c, j] = totals(candidate, clock.kinds)
