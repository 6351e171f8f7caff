"""Where a chain of loops keeps what depends on the kinds of its iterations: costs and counts.

In: a candidate, and the kind of iteration of every loop. Out: numbers of rows, iterations, kinds.
All of it runs inside `pipeline.play`.
"""

from __future__ import annotations

from typing import Any

from tilewright.common.compiled import piece
from tilewright.cost.pipeline_types import CALL, COPY


@piece
def row_of(rows: Any, value: int, kinds: Any) -> Any:
    """The row of a value for these kinds of iterations."""
    row = rows.base[value]
    if rows.varies[value]:
        for d in range(len(kinds)):
            row += rows.strides[value, d] * kinds[d]
    return row


@piece
def iterations_of(candidate: Any, kinds: Any, loop: int) -> Any:
    """How often a loop runs in iterations of these kinds of the loops around it."""
    loops = candidate.nest.loops
    return loops.counts[row_of(loops.rows, loop, kinds), candidate.tile]


@piece
def times_of(candidate: Any, kinds: Any, loop: int, kind: int) -> Any:
    """How many iterations of one kind a loop has."""
    count = iterations_of(candidate, kinds, loop)
    loops = candidate.nest.loops
    if loops.kinds[loop] == 1 or loops.uniform[loop, candidate.tile]:
        return count if kind == 0 else 0.0
    front, back = loops.edges[loop, 0], loops.edges[loop, 1]
    if kind < front:
        return 1.0 if kind < count else 0.0
    if kind == front:
        return max(count - front - back, 0.0)
    return 1.0 if count - back + (kind - front - 1) >= front else 0.0


@piece
def kind_after(candidate: Any, kinds: Any, loop: int, kind: int) -> int:
    """The kind of the iteration after the last one of a kind, -1 where it is the loop's last."""
    for other in range(kind + 1, candidate.nest.loops.kinds[loop]):
        if times_of(candidate, kinds, loop, other) > 0.0:
            return other
    return -1


@piece
def last_kinds(candidate: Any, kinds: Any, loops: int) -> None:
    """The kinds of the last iterations of the outermost `loops` loops."""
    kinds[:] = 0
    for d in range(loops):
        kind = 0
        while kind >= 0:
            kinds[d] = kind
            kind = kind_after(candidate, kinds, d, kind)


@piece
def happens(candidate: Any, kinds: Any, loops: int) -> bool:
    """Whether the candidate has iterations of these kinds at all."""
    for d in range(loops):
        if iterations_of(candidate, kinds, d) == 1.0:
            if kinds[d] != 0:
                return False
        elif times_of(candidate, kinds, d, kinds[d]) == 0.0:
            return False
    return True


@piece
def totals(candidate: Any, kinds: Any) -> Any:
    """(cycles of all calls, cycles of the engine for all transfers), whatever overlaps."""
    items, loops, compute, busy = candidate.nest.items, candidate.nest.loops, 0.0, 0.0
    for level in range(len(loops.kinds) + 1):
        before, after = candidate.nest.before[level], candidate.nest.after[level]
        if before[0] == before[1] and after[0] == after[1]:
            continue
        places = 1
        for d in range(level):
            places *= loops.kinds[d]
        for place in range(places):
            kinds[:] = 0
            rest, times = place, 1.0
            for d in range(level - 1, -1, -1):
                kinds[d] = rest % loops.kinds[d]
                rest //= loops.kinds[d]
            for d in range(level):
                times *= _share(candidate, kinds, d)
            if times == 0.0:
                continue
            for span in (before, after):
                for item in range(span[0], span[1]):
                    cost = times * items.service[row_of(items.rows, item, kinds), candidate.tile]
                    if items.kind[item] == CALL:
                        compute += cost
                    elif items.kind[item] != COPY:
                        busy += cost
    kinds[:] = 0
    return compute, busy


@piece
def _share(candidate: Any, kinds: Any, loop: int) -> Any:
    """How many iterations of its kind in `kinds` a loop has; of a single one the kind is 0."""
    if iterations_of(candidate, kinds, loop) == 1.0:
        return 1.0 if kinds[loop] == 0 else 0.0
    return times_of(candidate, kinds, loop, kinds[loop])
