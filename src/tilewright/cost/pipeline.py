"""How a nest's loops overlap: the compiled composition of item costs into elapsed cycles.

In: the items of a chain of loops (calls, gets and puts before and after the loop inside, level by
level), what each costs for every kind of iteration, and how often each loop runs. Out: cycles of
every candidate. Each level is played through for a few iterations with the core's clock, the
engine's queue and the arrival of what was fetched ahead, the loop inside being one opaque step; the
steady state is extrapolated. So fill, steady state and drain come from the order of the generated
code, not from a maximum of two sums.
"""

from __future__ import annotations

from typing import Any

from tilewright.common.compiled import at, entry_point, piece
from tilewright.cost import pipeline_crowds, pipeline_iteration, pipeline_rows, pipeline_types
from tilewright.cost.pipeline_crowds import ask, go_on, later, now_of, reset
from tilewright.cost.pipeline_iteration import (
    fetched,
    play_items,
    play_iteration,
    summary_of,
)
from tilewright.cost.pipeline_rows import (
    combinations_of,
    first_kinds,
    happens,
    iterations_of,
    kind_after,
    kinds_at,
    last_kinds,
    row_at,
    times_of,
    totals,
)
from tilewright.cost.pipeline_types import (
    APART,
    GET,
    OWN,
    PUT,
    Flags,
    Floats,
    Ints,
    PipelineState,
    Tables,
)

_PLAYED = 3
_BACKLOG = 1e15
_ROUNDING = 1.0 - 1e-9
"""Factor that allows for the rounding of sums in another order."""


@piece
def mark_looped(s: PipelineState) -> None:
    """Mark the levels inside a loop that runs more than once; elsewhere there is nothing to
    overlap.
    """
    looped = 0
    for d in range(s.clock.loops):
        at(s.levels, d).looped = looped
        if iterations_of(s, d) > 1.0:
            looped = 1
    at(s.levels, s.clock.loops).looped = looped


@piece
def _loop(s: PipelineState, loop: int) -> float:
    """Play all iterations of a loop, a few of each kind in full, the steady state extrapolated.

    The last one of a kind is played apart: what it fetches is of the next kind, or the end. Returns
    when the second iteration of the first kind ended, negative where there is but one.
    """
    clock, level, second = s.clock, at(s.levels, loop), -1.0
    own, apart = at(s.crowds, OWN), at(s.crowds, APART)
    for kind in range(level.kinds):
        times = times_of(s, loop, kind)
        if times == 0.0:
            continue
        level.kind = level.following = kind
        played = min(times - 1.0, float(_PLAYED))
        _repeat(s, loop + 1, min(played, 2.0))
        if kind == 0 and played >= 2.0:
            second = now_of(s)
        go_on(s, True)
        now, others, busy, period = own.last, apart.last, clock.busy, 1.0
        _repeat(s, loop + 1, played - 2.0)
        if times - 1.0 > _PLAYED and _stores_twice(s, loop + 1):
            go_on(s, True)
            now, others, busy = own.last, apart.last, clock.busy
            period = min(2.0, times - 1.0 - played)
            _repeat(s, loop + 1, period)
            played += period
        rest = times - 1.0 - played
        if rest > 0.0:
            go_on(s, True)
            _extrapolate(s, now, others, busy, rest / period)
        level.following = kind_after(s, loop, kind)
        _repeat(s, loop + 1, 1.0)
    level.kind = 0
    return second


@piece
def _repeat(s: PipelineState, level: int, times: float) -> None:
    """Play the body at `level` the given number of times."""
    played = 0.0
    while played < times:
        play_iteration(s, level)
        played += 1.0


@piece
def _extrapolate(s: PipelineState, now: float, others: float, busy: float, times: float) -> None:
    """Repeat what happened since the clock stood at `now`: what is under way ends later."""
    clock = s.clock
    clock.busy += (clock.busy - busy) * times
    for crowd, before in ((OWN, now), (APART, others)):
        own = at(s.crowds, crowd)
        shift = (own.last - before) * times
        later(own, shift)
        for place in range(crowd, clock.places, 2):
            later(at(s.served, place), shift)
    shift = (now_of(s) - max(now, others)) / (times + 1.0) * times
    clock.free += shift
    for d in range(clock.loops):
        at(s.levels, d).due += shift


@piece
def _stores_twice(s: PipelineState, level: int) -> bool:
    """True if the body at `level`, the loops of one iteration inside it dissolved, stores from two
    slots: its steady state takes two iterations, from the third on, when both have been stored
    from.
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
def _reset(s: PipelineState, first: float) -> None:
    """Set the clocks to zero, with nothing under way, that of the first core to its own."""
    reset(s, first)
    for d in range(s.clock.loops):
        at(s.levels, d).due = 0.0


@piece
def _summarise(s: PipelineState, loop: int, ending: bool, place: int) -> None:
    """Summarise a loop that starts with its data there and no store under way, the backlog it
    absorbs, how late a run is that follows at once, and what a first core that is ahead gains. The
    loops around go on with their like, or are `ending`.
    """
    clock, out = s.clock, at(s.summaries, place)
    _reset(s, 0.0)
    for d in range(clock.loops):
        at(s.levels, d).following = -1 if ending or d >= loop else _next_kind(s, d)
    second = _loop(s, loop)
    go_on(s, True)
    out.elapsed, out.busy, out.headroom = now_of(s), clock.busy, _BACKLOG
    out.lead, out.delay, out.gain = 0.0, 0.0, 0.0
    for number in range(2):
        crowd, left = at(s.crowds, number), at(s.left, 2 * place + number)
        left.first, left.last, left.start = crowd.first, crowd.last, crowd.start
        left.share, left.spared = crowd.share, crowd.spared
        later(left, -out.elapsed)
    if clock.busy > 0.0:
        out.lead = clock.free - out.elapsed
        again = _two(s, loop) - out.elapsed
        if second < 0.0:
            _reset(s, 0.0)
            second = _two(s, loop)
        out.delay = max(0.0, again - second)
        _reset(s, 0.0)
        clock.free = _BACKLOG
        out.headroom = _BACKLOG - (_two(s, loop) - second)
        _reset(s, -_BACKLOG)
        out.gain = max(0.0, second - _two(s, loop))


@piece
def _next_kind(s: PipelineState, loop: int) -> int:
    """The kind of the iteration after one of the present kind, -1 where there is none."""
    kind, times = at(s.levels, loop).kind, times_of(s, loop, at(s.levels, loop).kind)
    return kind if times > 1.0 else kind_after(s, loop, kind)


@piece
def _two(s: PipelineState, loop: int) -> Any:
    """End of two more iterations of the first kind."""
    level = at(s.levels, loop)
    level.following = level.kind
    _repeat(s, loop + 1, 2.0)
    go_on(s, True)
    return now_of(s)


@piece
def _fill(s: PipelineState) -> None:
    """Fetch the tiles that are fetched ahead of the loops. A loop inside another one starts when
    all of its own are there.
    """
    clock = s.clock
    for d in range(1, clock.loops + 1):
        level = at(s.levels, d)
        for number in range(level.before, level.before_end if level.looped else level.before):
            item = at(s.items, number)
            if item.kind == GET and at(s.buffers, item.buffer).double:
                row = row_at(s, item, number)
                if at(s.costs, row).service > 0.0:
                    ask(s, row, fetched(item))
                for outer in range(d):
                    at(s.levels, outer).due = clock.free


@piece
def _all_loops(s: PipelineState) -> None:
    """Summaries of every loop inside another one, innermost first, for every combination of kinds
    of the loops around it, and for its very last run.
    """
    for loop in range(s.clock.loops - 1, -1, -1):
        if not at(s.levels, loop).looped:
            break
        for place in range(combinations_of(s, loop)):
            kinds_at(s, place, loop)
            if happens(s, loop) and iterations_of(s, loop) > 1.0:
                _summarise(s, loop, False, summary_of(s, loop, place))
        last_kinds(s, loop)
        if iterations_of(s, loop) > 1.0:
            _summarise(s, loop, True, summary_of(s, loop, s.clock.combinations))
    first_kinds(s)


@piece
def _play_candidate(s: PipelineState) -> None:
    """Play one candidate from its start to its end, its outermost loop of several iterations on the
    clock of all.
    """
    mark_looped(s)
    _all_loops(s)
    _reset(s, 0.0)
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
    s.clock.now = max(now_of(s), s.clock.free)


@piece
def enter(s: PipelineState, best: Floats, contest: int) -> None:
    """Enter a candidate among the best of its contest."""
    place = best.shape[1]
    while place > 0 and s.clock.now < best[contest, place - 1]:
        if place < best.shape[1]:
            best[contest, place] = best[contest, place - 1]
        best[contest, place - 1] = s.clock.now
        place -= 1


@piece
def take_tile(s: PipelineState, tables: Tables, j: int) -> None:
    """Take the numbers of tile j, but for the issue cycles, and its totals."""
    for row in range(tables.iterations.shape[0]):
        at(s.counts, row).iterations = tables.iterations[row, j]
    for row in range(tables.service.shape[0]):
        cost = at(s.costs, row)
        cost.service, cost.own = tables.service[row, j], tables.own[row, j]
        cost.apart = tables.others[0, row, j]
    for d in range(s.clock.loops):
        at(s.levels, d).uniform = tables.uniform[d, j]
    totals(s)


@entry_point(pipeline_types, pipeline_rows, pipeline_crowds, pipeline_iteration)
def least_cycles(s: PipelineState, tables: Tables, least: Floats) -> None:
    """Fill `least[j]` with the cycles of all calls or of all transfers of tile j, whichever are
    more: with any copies of buffers it takes no fewer.
    """
    for j in range(least.size):
        take_tile(s, tables, j)
        least[j] = max(s.clock.compute, s.clock.transfers)


@entry_point(pipeline_types, pipeline_rows, pipeline_crowds, pipeline_iteration)
def play(
    s: PipelineState,
    tables: Tables,
    wanted: Flags,
    order: Ints,
    least: Floats,
    best: Floats,
    cycles: Floats,
    compute: Floats,
    busy: Floats,
) -> None:
    """Fill `cycles[c, j]`, and the cycles of all calls and of all transfers, for the wanted copies
    c and tiles j, these in the given `order`. `best[n]`, infinite at first, becomes the fewest
    cycles in contest n: a tile that takes more by its `least` cycles is not played. Of none there
    is no contest.
    """
    keep = best.shape[1]
    for j in order:
        contest = tables.contest[j]
        if keep > 0 and least[j] * _ROUNDING > best[contest, keep - 1]:
            continue
        take_tile(s, tables, j)
        for row in range(tables.issue.shape[0]):
            at(s.costs, row).issue = tables.issue[row, j]
        for c in range(wanted.shape[0]):
            if wanted[c, j]:
                for b in range(s.clock.buffers):
                    at(s.buffers, b).double = tables.doubles[c, b]
                _play_candidate(s)
                enter(s, best, contest)
                cycles[c, j] = s.clock.now
                compute[c, j], busy[c, j] = s.clock.compute, s.clock.transfers
