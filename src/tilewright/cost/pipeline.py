"""How a nest's loops overlap: the compiled composition of item costs into elapsed cycles.

In: the items of a chain of loops (calls, gets and puts before and after the inner loop, level by
level), their costs for every kind of iteration, and the loops' iteration counts. Out: cycles of
every candidate. Each level is played for a few iterations with the cores' clocks, the engine's
queue and the arrival of prefetched tiles, until the state in flight repeats; the steady state is
then extrapolated. So fill, steady state and drain follow from the order of the generated code, not
from a maximum of two sums.
"""

from __future__ import annotations

from tilewright.common.compiled import at, entry_point, piece
from tilewright.cost import pipeline_crowds, pipeline_iteration, pipeline_rows, pipeline_types
from tilewright.cost.pipeline_crowds import ask, end_of, go_on, later, parted, reset
from tilewright.cost.pipeline_iteration import (
    begin_iteration,
    end_iteration,
    fetched,
    play_items,
)
from tilewright.cost.pipeline_rows import (
    first_kinds,
    iterations_of,
    kind_after,
    row_at,
    times_of,
)
from tilewright.cost.pipeline_types import (
    APART,
    GET,
    MARKS,
    OWN,
    PUT,
    Floats,
    Ints,
    Mark,
    PipelineState,
    Tables,
)

_NEAR = 1e-3
"""Tolerance in cycles: moments this close are equal but for rounding."""


@piece
def mark_looped(s: PipelineState) -> None:
    """Mark the levels inside a loop that runs more than once; only these can overlap iterations."""
    looped = 0
    for d in range(s.clock.loops):
        at(s.levels, d).looped = looped
        if iterations_of(s, d) > 1.0:
            looped = 1
    at(s.levels, s.clock.loops).looped = looped


@piece
def _loop(s: PipelineState, loop: int) -> None:
    """Play all iterations of a loop: a few of each kind in full, until the state in flight repeats;
    the rest is extrapolated. The last iteration of a kind is always played, as it fetches for the
    next kind, or nothing at the loop's end.
    """
    level, start = at(s.levels, loop), _mark(s, loop, 0.0)
    for kind in range(level.kinds):
        times, played = times_of(s, loop, kind), 0.0
        level.kind = kind
        start.own, start.free = at(s.crowds, OWN).last, s.clock.free
        while played < times:
            level.following = kind if played < times - 1.0 else kind_after(s, loop, kind)
            deep = begin_iteration(s, loop + 1)
            if deep < s.clock.loops:
                _loop(s, deep)
            end_iteration(s, loop + 1, deep)
            played += 1.0
            if times - 2.0 > level.settled and played < times - 1.0:
                played += _multiplied(s, loop, played, times - 1.0)
    level.kind = 0


@piece
def _multiplied(s: PipelineState, loop: int, played: float, end: float) -> float:
    """Extrapolate a loop up to iteration `end` from its latest ones, if they left the state in
    flight as it was, or if many are `played`. Returns the number of iterations skipped.
    """
    now, period, settled = _mark(s, loop, played), 0.0, at(s.levels, loop).settled
    if parted(s) and not at(s.levels, loop).meets:
        go_on(s, True)  # crowds of different speed have no state that comes back
    _set_mark(s, now)
    if played > settled:
        one, two = _mark(s, loop, played - 1.0), _mark(s, loop, played - 2.0)
        if played - 2.0 >= settled and _alike(now, two, False):
            period = 2.0
        if _alike(now, one, abs(now.own - one.own - (one.own - two.own)) < _NEAR):
            period = 1.0
    times = (end - played) // max(period, 1.0)
    if period == 0.0:
        if played < MARKS - 1.0:
            return 0.0
        period = MARKS // 2  # nothing repeats exactly: extrapolate the mean of the latest half
        times = (end - played) / period
    _extrapolate(s, _mark(s, loop, played - period), _mark(s, loop, played - 2.0).free, times)
    return times * period


@piece
def _alike(now: Mark, before: Mark, even: bool) -> bool:
    """True if the state in flight is equal at two marks, or, where iterations are `even`, if less
    is in flight now.
    """
    more = now.free - now.own - (before.free - before.own)
    longer = now.waits - before.waits
    alike = max(abs(more), abs(longer)) < _NEAR or (even and more < 0.0 and longer < _NEAR)
    return abs(now.moment - before.moment) < _NEAR and alike


@piece
def _mark(s: PipelineState, loop: int, played: float) -> Mark:
    """The mark after one of the loop's latest iterations, in a ring of `MARKS`."""
    return at(s.marks, loop * MARKS + int(played) % MARKS)


@piece
def _set_mark(s: PipelineState, mark: Mark) -> None:
    """Record the present state. `moment` and `waits` are hashes of several clocks: irrational
    weights keep changes of two terms from cancelling.
    """
    own, apart = at(s.crowds, OWN), at(s.crowds, APART)
    mark.own, mark.apart, mark.free = own.last, apart.last, s.clock.free
    mark.moment = own.first - own.last + 1.3247179572 * (own.start - own.last)
    mark.waits = 0.0
    for place in range(s.clock.places):
        served, crowd = at(s.served, place), at(s.crowds, place % 2 if parted(s) else OWN)
        mark.waits += max(served.last - crowd.last, 0.0)
        mark.waits += 1.3247179572 * max(served.first - crowd.first, 0.0)
    if parted(s):
        mark.moment += 2.4142135623 * (apart.last - own.last)
        mark.moment += 1.7320508075 * (apart.first - own.last)
        mark.moment += 1.2599210499 * (own.known - own.done)
        mark.moment += 1.4142135624 * (apart.known - apart.done)


@piece
def _extrapolate(s: PipelineState, before: Mark, since: float, times: float) -> None:
    """Advance all clocks by `times` the cycles since a mark. Transfers that the engine served after
    cycle `since` shift along.
    """
    clock, shift = s.clock, 0.0
    for crowd in range(2):
        own = at(s.crowds, crowd)
        shift = (own.last - (before.apart if crowd else before.own)) * times
        later(own, shift)
        for place in range(crowd, clock.places, 2):
            served = at(s.served, place)
            if served.free > since:
                later(served, shift)
                served.asked += shift
                served.asked_last += shift
                served.free += shift
    clock.free += (clock.free - before.free) * times


@piece
def _stores_twice(s: PipelineState, level: int) -> bool:
    """True if the body at `level`, with inner loops of one iteration dissolved, stores from two
    slots. Then the steady state needs two iterations, until both slots have been stored from.
    """
    for d in range(level, s.clock.loops + 1):
        body = at(s.levels, d)
        if _has_double_put(s, body.after, body.after_end):
            return True
        if _has_double_put(s, body.before, body.before_end):
            return True
        if d < s.clock.loops and iterations_of(s, d) != 1.0:
            break
    return False


@piece
def _has_double_put(s: PipelineState, first: int, end: int) -> bool:
    for number in range(first, end):
        item = at(s.items, number)
        if item.kind == PUT and at(s.buffers, item.buffer).double:
            return True
    return False


@piece
def _fill(s: PipelineState) -> None:
    """Prefetch the first tiles, ahead of the loops."""
    for d in range(1, s.clock.loops + 1):
        level = at(s.levels, d)
        for number in range(level.before, level.before_end if level.looped else level.before):
            item = at(s.items, number)
            if item.kind == GET and at(s.buffers, item.buffer).double:
                row = row_at(s, item, number)
                if at(s.costs, row).service > 0.0:
                    ask(s, row, fetched(item))


@piece
def _play_candidate(s: PipelineState) -> None:
    """Play one candidate from start to end; outer loops of a single iteration are dissolved."""
    mark_looped(s)
    first_kinds(s)
    for d in range(s.clock.loops):
        at(s.levels, d).settled = 2 if _stores_twice(s, d + 1) else 1
    reset(s)
    loops, outermost = s.clock.loops, 0
    for d in range(loops):
        at(s.levels, d).following = -1
    while outermost < loops and iterations_of(s, outermost) == 1.0:
        outermost += 1
    for d in range(outermost + 1):
        play_items(s, at(s.levels, d).before, at(s.levels, d).before_end, 0)
    _fill(s)
    if outermost < loops:
        _loop(s, outermost)
    for d in range(outermost, -1, -1):
        play_items(s, at(s.levels, d).after, at(s.levels, d).after_end, 0)
    go_on(s, True)
    s.clock.now = end_of(s)


@piece
def enter(s: PipelineState, best: Floats, contest: int) -> None:
    """Insert a candidate's cycles into the ascending `best` of its contest."""
    place = best.shape[1]
    while place > 0 and s.clock.now < best[contest, place - 1]:
        if place < best.shape[1]:
            best[contest, place] = best[contest, place - 1]
        best[contest, place - 1] = s.clock.now
        place -= 1


@piece
def take_tile(s: PipelineState, tables: Tables, j: int) -> None:
    """Load the numbers of tile j, except the issue cycles, into the records."""
    for row in range(tables.iterations.shape[0]):
        at(s.counts, row).iterations = tables.iterations[row, j]
    for row in range(tables.service.shape[0]):
        cost = at(s.costs, row)
        cost.service, cost.own = tables.service[row, j], tables.own[row, j]
        cost.apart = tables.others[0, row, j]
    for d in range(s.clock.loops):
        at(s.levels, d).uniform = tables.uniform[d, j]


@entry_point(pipeline_types, pipeline_rows, pipeline_crowds, pipeline_iteration)
def play(
    s: PipelineState, tables: Tables, order: Ints, least: Floats, best: Floats, cycles: Floats
) -> None:
    """Fill `cycles[c, j]` for copies c and tiles j, in the `order` of flat indices. `best[n]`,
    infinite at first, collects the fewest cycles of contest n; a candidate whose lower bound
    `least` exceeds all of them is not played. With an empty `best` every candidate is.
    """
    keep, taken = best.shape[1], -1
    for i in order:
        c, j = i // cycles.shape[1], i % cycles.shape[1]
        contest = tables.contest[j]
        if keep > 0 and least[c, j] > best[contest, keep - 1]:
            continue
        if j != taken:
            take_tile(s, tables, j)
            for row in range(tables.issue.shape[0]):
                at(s.costs, row).issue = tables.issue[row, j]
            taken = j
        for b in range(s.clock.buffers):
            at(s.buffers, b).double = tables.doubles[c, b]
        _play_candidate(s)
        enter(s, best, contest)
        cycles[c, j] = s.clock.now
