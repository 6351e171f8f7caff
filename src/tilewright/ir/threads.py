"""Division of a nest among threads that share its memory: which loops, into how many parts.

In: the statements of a nest, then the extents of its loops, for one candidate or as arrays for
many. Out: the number of parts of each loop. One rule prices candidates and divides the chosen
program.

A loop can be divided if different iterations write different elements, and statements around it
only fetch: each thread then fetches into buffers of its own. A thread's share of a divided program,
and the number of barriers, follow from the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from tilewright.common.expr import Const, Value, ceil_div, evaluate, free_vars
from tilewright.ir.nodes import Barrier, Call, For, If, Range, Stmt, Tile, Transfer, Wait
from tilewright.ir.visit import rewrite, walk

EFFICIENCY = 0.9
"""Least utilisation of the threads at which a single loop is divided among all of them."""


def loop_chain(body: tuple[Stmt, ...]) -> tuple[tuple[For, bool], ...]:
    """The loops of a nest, outermost first, each with True if it can be divided."""
    found: list[tuple[For, bool]] = []
    fetching = True
    here: tuple[Stmt, ...] = body
    while True:
        loops = [s for s in here if isinstance(s, For)]
        fetching &= all(_fetches(s) for s in here if not isinstance(s, For))
        if len(loops) != 1:
            return tuple(found)
        found.append((loops[0], fetching and _writes_apart(loops[0])))
        here = loops[0].body


def _fetches(stmt: Stmt) -> bool:
    match stmt:
        case Transfer(direction):
            return direction == "get"
        case If(_, then, orelse):
            return all(map(_fetches, (*then, *orelse)))
        case _:
            return isinstance(stmt, Wait)


def _writes_apart(loop: For) -> bool:
    """True if every region of main memory that the body writes depends on the loop's variable."""
    regions = list(_written_ranges(loop.body))
    return bool(regions) and all(any(loop.var in free_vars(r.start) for r in x) for x in regions)


def _written_ranges(body: tuple[Stmt, ...]) -> Iterator[tuple[Range, ...]]:
    for stmt in walk(body):
        match stmt:
            case Call(_, (Tile(_, ranges), *_)):
                yield ranges
            case Transfer("put", _, ranges):
                yield ranges
            case _:
                pass


def occupies(count: Value, threads: int) -> Value:
    """True if `count` iterations keep nearly all threads busy.

    >>> bool(occupies(7, 4)), bool(occupies(28, 4))
    (False, True)
    """
    return np.greater_equal(count, EFFICIENCY * threads * -(-count // threads))


def parts_of(
    counts: Sequence[Value], divisible: Sequence[bool], together: int, threads: int
) -> list[Value]:
    """The number of parts of each loop; their product is at most `threads`.

    The outermost loop that occupies nearly all threads is divided among them. If there is none, one
    or two of the loops after the first `together`, which other nests share, are divided, in the way
    with the shortest longest part.

    >>> [int(parts) for parts in parts_of([3, 28, 5], [True, True, False], 0, 2)]
    [1, 2, 1]
    >>> [int(parts) for parts in parts_of([3, 28, 5], [True, True, False], 0, 64)]
    [2, 32, 1]
    """
    found: list[Value] = [1] * len(counts)
    done: Value = np.False_
    for d in (d for d, possible in enumerate(divisible) if possible):
        takes = ~done & occupies(counts[d], threads)
        found[d] = np.where(takes, threads, 1)
        done = done | takes
    least: Value = np.where(done, 0.0, 1.0)
    own = [d for d, possible in enumerate(divisible) if possible and d >= together]
    for way in _ways(own, threads):
        left: Value = 1.0
        for d, parts in way.items():
            left = left * (-(-counts[d] // parts) / counts[d])
        better = left < least
        least = np.where(better, left, least)
        for d in own:
            found[d] = np.where(better, way.get(d, 1), found[d])
    return found


def _ways(loops: Sequence[int], threads: int) -> Iterator[dict[int, int]]:
    """Divisions of one loop, or of two, among all threads: parts by loop."""
    for d in loops:
        yield {d: threads}
    for outer, inner in combinations(loops, 2):
        for parts in range(2, threads // 2 + 1):
            if threads % parts == 0:
                yield {outer: parts, inner: threads // parts}


def busiest_thread(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements of the busiest thread: the longest part of each divided loop."""
    return rewrite(body, _longest_run)


def _longest_run(stmt: Stmt) -> tuple[Stmt, ...] | None:
    if isinstance(stmt, For) and stmt.threads > 1:
        return (replace(stmt, extent=ceil_div(stmt.extent, Const(stmt.threads)), threads=1),)
    return None


def thread_meetings(body: tuple[Stmt, ...]) -> int:
    """Number of times that the threads of an instantiated program meet before its end: at barriers
    outside divided loops, and after each iteration of loops around such barriers.
    """
    found = 0
    for stmt in body:
        match stmt:
            case Barrier():
                found += 1
            case For(_, extent, inner, 1) if meets_inside(stmt):
                found += int(evaluate(extent, {})) * (thread_meetings(inner) + 1)
            case _:
                pass
    return found


def meets_inside(loop: For) -> bool:
    """True if the loop, run by all threads, has a barrier in its body."""
    return any(isinstance(stmt, Barrier) for stmt in walk(loop.body))
