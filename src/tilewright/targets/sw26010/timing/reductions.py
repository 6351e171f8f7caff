"""Cycles of the routines of reductions, in each of their modes.

In: a `ReduceRoutine`. Out: the terms of the form that follows its code, and the
arguments of a call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np

from tilewright.common.expr import Value
from tilewright.ir.primitives.maps import Gathering
from tilewright.targets.sw26010.calls.nest_rows import OUTER_LOOPS
from tilewright.targets.sw26010.elementwise.lie import ELEMENTS, LANES, Lie
from tilewright.targets.sw26010.elementwise.loops import LEVELS
from tilewright.targets.sw26010.elementwise.reduce import PARTS, ReduceRoutine, reduce_routine
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES
from tilewright.targets.sw26010.timing.derived import ELEMENTWISE_MAKERS
from tilewright.targets.sw26010.timing.nests import (
    LOOPS,
    Arguments,
    CoreTimings,
    around,
)

FREQUENT: tuple[tuple[Gathering, str, Lie], ...] = (
    *(("max", "x0", Lie(step, taps)) for step in (1, 2, 0) for taps in (1, 3)),
    *(("max", "x0", Lie(step, taps, loops=True)) for step in (1, 2, 0) for taps in (2, 3)),
    *(("sum", "x0", Lie(step, taps, loops=True)) for step in (1, 2, 0) for taps in (1, 2)),
    *(("sum", "x0 * x0", Lie(step)) for step in (1, 0)),
    *((function, "x0", Lie(0, along=True)) for function in ("max", "sum")),
)
"""Common reductions: pooling windows, averages, squares over neighbouring channels, and the maximum
and sum of a softmax.
"""
GATHERING = ((1, 1), (1, 4), (3, 2))
"""Iterations of the two gathering loops."""
ITEMS = (1, 2, 3, 4, 7, 13, 24)
RUNS, RESULTS = (1, 5, 8, 9, 24, 47, 80), (1, 2, 5)
_COUNT_AT, _MOVES_AT = 60_000, 60_128


@dataclass(frozen=True)
class Extents:
    """`rows` of a number of results, and the extents of the loops that gather one: two loops, and a
    run's length. `around` gives, for each loop around the one over rows, innermost first, its total
    iterations beyond the first.
    """

    rows: Value
    row: Value
    outer: Value = 1
    inner: Value = 1
    length: Value = 1
    around: tuple[Value, ...] = (0,) * OUTER_LOOPS


def _frequent_routines() -> Iterable[ReduceRoutine]:
    """The routines whose timings are shipped."""
    found = (reduce_routine(*what, kind) for kind in ("f64", "f32") for what in FREQUENT)
    return (routine for routine in found if routine)


def reduce_terms(routine: ReduceRoutine, mode: str, extents: Extents) -> list[Value]:
    """The terms of a call: the call, further rows, the iterations of each loop around them, rows;
    the work in each row, of every item and of every iteration of the gathering loops.
    """
    rows = extents.rows
    many = np.greater(rows, 1) * 1.0
    terms: list[Value] = [1 + 0 * rows, many, *extents.around, rows * 1]
    if routine.lie.along:
        return [*terms, *_along_terms(routine, extents)]
    size = 1 if mode == ELEMENTS else VECTOR_LANES
    items = extents.row // size
    done: list[Value] = [items // routine.unrolled]
    if routine.unrolled > 1:
        terms.append(rows * np.greater(done[0], 0))
    left = routine.unrolled // 2
    while left:
        done.append(items // left % 2)
        left //= 2
    for each in (rows * n for n in done):
        terms.append(each)
        if routine.lie.loops:
            terms += [each * extents.outer, each * extents.outer * extents.inner]
    return terms


def _along_terms(routine: ReduceRoutine, extents: Extents) -> list[Value]:
    results = extents.rows * extents.row
    terms, runs = [results], results * extents.outer * extents.inner
    if routine.lie.loops:
        terms += [results * extents.outer, runs]
    trips, rest = extents.length // PARTS, extents.length % PARTS
    some = [np.greater(n, 0) * 1 for n in (trips, rest)]
    return [*terms, runs * trips, runs * some[0], runs * rest, runs * some[1]]


Reduced: TypeAlias = tuple[tuple[int, ...], Extents]
"""Iterations of the loops over rows, outermost first, and the extents of a call."""


def _samples(routine: ReduceRoutine, mode: str) -> list[Reduced]:
    gathering = GATHERING if routine.lie.loops else GATHERING[:1]
    if routine.lie.along:
        sizes: list[tuple[int, int]] = list(product(RESULTS, RUNS))
    else:
        size = 1 if mode == ELEMENTS else VECTOR_LANES
        sizes = [(size * items, routine.lie.taps) for items in ITEMS]
    return [
        (loops, Extents(prod(loops), row, outer, inner, length, around(loops)))
        for loops, (row, length), (outer, inner) in product(LOOPS, sizes, gathering)
    ]


def _call(routine: ReduceRoutine, mode: str, sample: Reduced) -> Arguments:
    """Arguments and memory of a call in one of the routine's modes. Rows and runs start a vector
    apart, or an element: their cycles do not depend on their addresses.
    """
    loops, extents = sample
    counts = [*(1,) * (LEVELS - 1 - len(loops)), *loops, extents.row]
    distance = 1 if mode == ELEMENTS else VECTOR_LANES
    apart = [distance * (count > 1) for count in counts[:-1]]
    moves: list[int] = []
    for step in (1, VECTOR_LANES if routine.lie.along else routine.lie.step or 1):
        strides = [*apart, step]
        inside = [n * s for n, s in zip(counts[1:], strides[1:], strict=True)]
        moves += [*(s - i for s, i in zip(apart, inside, strict=True)), step]
    counts += [extents.outer, extents.inner, extents.length]
    moves += [0, 0, VECTOR_LANES]
    element = routine.precision.element_bytes
    starts = [element * (mode == ELEMENTS), element * (mode in (ELEMENTS, LANES))]
    return [*starts, _COUNT_AT, _MOVES_AT], {_COUNT_AT: counts, _MOVES_AT: moves}


REDUCTIONS = CoreTimings(
    file=__file__,
    makers=ELEMENTWISE_MAKERS,
    frequent=_frequent_routines,
    samples=_samples,
    terms=lambda routine, mode, sample: reduce_terms(routine, mode, sample[1]),
    call=_call,
)
