"""One iteration of a loop's body: its items on the clocks of the cores and in the engine's queue.

Everything here runs inside `pipeline.play`.
"""

from __future__ import annotations

from tilewright.common.compiled import at, hot_piece
from tilewright.cost.pipeline_crowds import ask, meet, spend, wait
from tilewright.cost.pipeline_rows import iterations_of, next_row_of, row_at
from tilewright.cost.pipeline_types import COPY, GET, PLACES, PUT, Item, PipelineState


@hot_piece
def fetched(item: Item) -> int:
    """The place, in `served`, of the transfer that fetches an item's tile."""
    return PLACES * item.buffer


@hot_piece
def _stored(s: PipelineState, item: Item, before: int) -> int:
    """The place, in `served`, of the latest store from an item's buffer, or of the one `before` it
    from the other slot.
    """
    buffer = at(s.buffers, item.buffer)
    slot = 1 - buffer.slot if buffer.double and before else buffer.slot
    return PLACES * item.buffer + 2 + 2 * slot


@hot_piece
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


@hot_piece
def _reuse(s: PipelineState, first: int, end: int) -> None:
    """Wait until the slots that a span stores from may be overwritten."""
    for number in range(first, end):
        item = at(s.items, number)
        if item.kind == PUT:
            wait(s, _stored(s, item, 1))


@hot_piece
def begin_iteration(s: PipelineState, level: int) -> int:
    """Play one run of the body at `level` up to the inner loop. Loops of one iteration dissolve:
    returns the number of the first inner loop with several, or the number of loops.
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
    return deep


@hot_piece
def end_iteration(s: PipelineState, level: int, deep: int) -> None:
    """Play the rest of a run of the body at `level`, after the inner loop `deep`."""
    for d in range(deep, level - 1, -1):
        body = at(s.levels, d)
        play_items(s, body.after, body.after_end, body.looped)
