"""One iteration of a loop's body: its items on the core's clock and in the engine's queue, and the
loop inside as one opaque step.

All of it runs inside `pipeline.play`.
"""

from __future__ import annotations

from tilewright.common.compiled import at, piece
from tilewright.cost.pipeline_crowds import ask, go_on, later, meet, now_of, spend, wait
from tilewright.cost.pipeline_rows import iterations_of, next_row_of, row_at
from tilewright.cost.pipeline_types import COPY, GET, OWN, PLACES, PUT, Item, PipelineState


@piece
def fetched(item: Item) -> int:
    """The place of the tile that an item fetches."""
    return PLACES * item.buffer


@piece
def _stored(s: PipelineState, item: Item, before: int) -> int:
    """The place of the latest store of an item's buffer, or of the one `before` from the other
    slot.
    """
    buffer = at(s.buffers, item.buffer)
    slot = 1 - buffer.slot if buffer.double and before else buffer.slot
    return PLACES * item.buffer + 2 + 2 * slot


@piece
def play_items(s: PipelineState, first: int, end: int, looped: int) -> None:
    """Play the items of a span."""
    for number in range(first, end):
        item = at(s.items, number)
        row, kind = row_at(s, item, number), item.kind
        cost = at(s.costs, row)
        if kind <= COPY:
            if item.together and cost.service > 0.0:
                meet(s)
            spend(s, cost)
        elif cost.service > 0.0:
            buffer = at(s.buffers, item.buffer)
            if kind == GET and buffer.double and looped:
                wait(s, fetched(item))
                row = next_row_of(s, item, number)
                if row >= 0 and at(s.costs, row).service > 0.0:
                    ask(s, row, fetched(item))
            elif kind == GET or not looped:
                ask(s, row, fetched(item))
                wait(s, fetched(item))
            else:
                buffer.slot = 1 - buffer.slot
                ask(s, row, _stored(s, item, 0))


@piece
def _reuse(s: PipelineState, first: int, end: int) -> None:
    """Wait until the slots that the span's stores leave from may be written again."""
    for number in range(first, end):
        item = at(s.items, number)
        if item.kind == PUT:
            wait(s, _stored(s, item, 1))


@piece
def _opaque(s: PipelineState, loop: int, place: int) -> None:
    """Run a summarised loop: late by what its last run left under way, or by the backlog it can not
    absorb.
    """
    go_on(s, True)
    clock, level, own = s.clock, at(s.levels, loop), at(s.crowds, OWN)
    inner = at(s.summaries, place)
    start, free = now_of(s), clock.free
    end = max(start + max(0.0, free - start - inner.headroom), level.due) + inner.elapsed
    end -= min(own.last - own.first, inner.gain)
    if inner.busy > 0.0:
        end = max(end, max(start, free) + inner.busy - max(0.0, inner.lead))
        clock.free = max(end + inner.lead, max(free, start) + inner.busy)
        level.due = end + inner.delay
    for number in range(2):
        crowd, left = at(s.crowds, number), at(s.left, 2 * place + number)
        crowd.first, crowd.last, crowd.start = left.first, left.last, left.start
        crowd.share, crowd.spared = left.share, left.spared
        later(crowd, end)
    clock.busy += inner.busy


@piece
def _goes_on(s: PipelineState, loops: int) -> bool:
    """True if any of the outermost `loops` loops has another iteration."""
    goes_on = False
    for d in range(loops):
        goes_on = goes_on or at(s.levels, d).following >= 0
    return goes_on


@piece
def _place(s: PipelineState, loops: int) -> int:
    """The number of the present combination of kinds of the outermost `loops` loops."""
    place = 0
    for d in range(loops):
        level = at(s.levels, d)
        place = place * level.kinds + level.kind
    return place


@piece
def summary_of(s: PipelineState, loop: int, place: int) -> int:
    """The number of the summary of a loop for one combination of kinds of the loops around it; the
    last one is that of its very last run.
    """
    return loop * (s.clock.combinations + 1) + place


@piece
def play_iteration(s: PipelineState, level: int) -> None:
    """Play one run of the body at `level`. Loops of one iteration dissolve; the first real one
    inside is opaque.
    """
    loops, deep = s.clock.loops, level
    while deep < loops and iterations_of(s, deep) == 1.0:
        deep += 1
    if at(s.levels, level).looped:
        for d in range(level, deep + 1):
            body = at(s.levels, d)
            _reuse(s, body.before, body.before_end)
            _reuse(s, body.after, body.after_end)
    for d in range(level, deep + 1):
        body = at(s.levels, d)
        play_items(s, body.before, body.before_end, body.looped)
    if deep < loops:
        place = _place(s, deep) if _goes_on(s, deep) else s.clock.combinations
        _opaque(s, deep, summary_of(s, deep, place))
    for d in range(deep, level - 1, -1):
        body = at(s.levels, d)
        play_items(s, body.after, body.after_end, body.looped)
