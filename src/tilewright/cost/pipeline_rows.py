"""Look-up of the costs and iteration counts that depend on the kinds of a nest's iterations.

In: a candidate, and the present kind of iteration of every loop. Out: costs, iterations, kinds.
Everything here runs inside `pipeline.play`.
"""

from __future__ import annotations

from typing import Any

from tilewright.common.compiled import at, hot_piece
from tilewright.cost.pipeline_types import Cost, Item, PipelineState, Stride


@hot_piece
def row_of(s: PipelineState, strides: Stride, base: int, value: int) -> Any:
    """Row of number `value` at the present kinds of iterations; `base` is its row at the first."""
    loops, row = s.clock.loops, base
    for d in range(loops):
        row += at(strides, value * loops + d).rows * at(s.levels, d).kind
    return row


@hot_piece
def row_at(s: PipelineState, item: Item, number: int) -> Any:
    """Row of an item's cost at the present kinds of iterations."""
    row = item.base
    if item.varies:
        row = row_of(s, s.item_strides, row, number)
    return row


@hot_piece
def cost_of(s: PipelineState, item: Item, number: int) -> Cost:
    """Cost of an item at the present kinds of iterations."""
    return at(s.costs, row_at(s, item, number))


@hot_piece
def next_row_of(s: PipelineState, item: Item, number: int) -> int:
    """Row of an item's cost in the next iteration, -1 where there is none: the innermost loop that
    goes on advances to its next kind, and the loops inside it start again.
    """
    last = item.level - 1
    while last >= 0 and at(s.levels, last).following < 0:
        last -= 1
    if last < 0:
        return -1
    row = item.base
    if item.varies:
        strides = at(s.item_strides, number * s.clock.loops)
        for d in range(last):
            row += at(strides, d).rows * at(s.levels, d).kind
        row += at(strides, last).rows * at(s.levels, last).following
    return row


@hot_piece
def iterations_of(s: PipelineState, loop: int) -> Any:
    """Number of iterations of a loop at the present kinds of the loops around it."""
    level = at(s.levels, loop)
    row = level.base
    if level.varies:
        row = row_of(s, s.level_strides, row, loop)
    return at(s.counts, row).iterations


@hot_piece
def times_of(s: PipelineState, loop: int, kind: int) -> Any:
    """Number of iterations of one kind in a loop."""
    count, level = iterations_of(s, loop), at(s.levels, loop)
    if level.kinds == 1 or level.uniform:
        return count if kind == 0 else 0.0
    front, back, period = level.front, level.back, level.period
    if kind < front:
        return 1.0 if kind < count else 0.0
    if kind < front + period:
        return max(count - back - kind + period - 1, 0.0) // period
    return 1.0 if count - back + (kind - front - period) >= front else 0.0


@hot_piece
def period_of(s: PipelineState, loop: int) -> Any:
    """Period of a loop's present kind of iteration; 1 for kinds that do not come in turn."""
    level = at(s.levels, loop)
    place = level.kind - level.front
    return 1 if level.uniform or place < 0 or place >= level.period else level.period


@hot_piece
def times_in_turn(s: PipelineState, loop: int) -> Any:
    """Number of iterations of a loop's present kind and of the kinds that come in turn with it."""
    level = at(s.levels, loop)
    if period_of(s, loop) == 1:
        return times_of(s, loop, level.kind)
    return iterations_of(s, loop) - level.front - level.back


@hot_piece
def kind_in_turn(s: PipelineState, loop: int) -> int:
    """Kind of the next iteration, among the kinds that come in turn with the present one."""
    level, period = at(s.levels, loop), period_of(s, loop)
    place = level.kind - level.front
    return level.kind if period == 1 else level.front + (place + 1) % period


@hot_piece
def kind_behind(s: PipelineState, loop: int) -> int:
    """Kind of the iteration that follows all iterations of the present kind and of those in turn
    with it; -1 at the loop's end.
    """
    level, period = at(s.levels, loop), period_of(s, loop)
    return kind_after(s, loop, level.kind if period == 1 else level.front + period - 1)


@hot_piece
def kind_after(s: PipelineState, loop: int, kind: int) -> int:
    """Kind of the iteration that follows the last one of a kind; -1 at the loop's end."""
    for other in range(kind + 1, at(s.levels, loop).kinds):
        if times_of(s, loop, other) > 0.0:
            return other
    return -1


@hot_piece
def first_kinds(s: PipelineState) -> None:
    """Put every loop at its first kind of iteration."""
    for d in range(s.clock.loops):
        at(s.levels, d).kind = 0
