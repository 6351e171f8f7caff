"""Cycles of the routines of maps, by vectors and by elements.

In: a `MapRoutine`. Out: the terms of the form that follows its code, and the arguments
of a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np

from tilewright.common.expr import Value
from tilewright.seeds.pooling import POOLED, PoolWindows
from tilewright.targets.sw26010.calls.nest_rows import NestRows
from tilewright.targets.sw26010.elementwise.loops import LEVELS
from tilewright.targets.sw26010.elementwise.maps import MapRoutine, map_routine
from tilewright.targets.sw26010.timing.derived import ELEMENTWISE_MAKERS
from tilewright.targets.sw26010.timing.nests import (
    FEW_ITEMS,
    ITEMS,
    LOOPS,
    Arguments,
    CoreTimings,
    Counts,
    sampled_loops,
    sampled_rows,
)

_BIASED, _SCALED = "x0 + x1", "x0 * x1 + x2"
FREQUENT: tuple[tuple[str, tuple[bool, ...]], ...] = (
    ("0.0", ()),
    ("-inf", ()),
    ("x0", (False,)),
    ("0.0 if x0 < 0.0 else x0", (False,)),
    *((_BIASED, (False, still)) for still in (True, False)),
    *((f"0.0 if {_BIASED} < 0.0 else {_BIASED}", (False, still)) for still in (True, False)),
    (_SCALED, (False, True, True)),
    (f"0.0 if {_SCALED} < 0.0 else {_SCALED}", (False, True, True)),
    *(
        (f"0.0 if {total} < 0.0 else {total}", (False, True, True, False))
        for total in (f"({_SCALED}) + x3", f"x3 + ({_SCALED})")
    ),
    ("tanh(x0)", (False,)),
    *((f"tanh({_BIASED})", (False, still)) for still in (True, False)),
    *(("exp(x0 - x1)", (False, still)) for still in (True, False)),
    *(("x0 / x1", (False, still)) for still in (True, False)),
    ("x0 / pow(2.0 + 0.0001 * x1, 0.75)", (False, False)),
    *((PoolWindows(f, (2, 2)).expression, (False,) * 4) for f in POOLED),
)
"""Expressions, and which operands stay the same along a row: fills, copies, ReLU, bias, residual
sums, batch normalisation, tanh, the powers and the quotient of a softmax, AlexNet's normalisation,
and windows of two rows and columns.
"""
UPDATES: tuple[tuple[str, tuple[bool, ...]], ...] = (
    ("0.5 * x0", (False,)),
    ("x0 + x1", (False, False)),
    ("x0 + 0.5 * x1", (False, False)),
    ("0.5 * x0 + x1", (False, False)),
    ("0.5 * x0 + 0.5 * x1", (False, False)),
    ("x0 + x1 * x2", (False, False, True)),
)
"""Expressions that update their first operand: sums with factors, and products of a window."""
LANES_ITEMS = (1, 2, 3, 5, 6, 8, 13, 16, 24, 37, 52)
"""Numbers of elements in the sampled rows of routines that gather elements into vectors."""
_PLACES_AT, _COUNT_AT, _STEPS_AT = 60_000, 60_064, 60_128


def _frequent_routines() -> Iterator[MapRoutine]:
    """The routines whose timings are shipped."""
    for kind in ("f64", "f32"):
        found = [map_routine(e, still, kind) for e, still in FREQUENT]
        found += [map_routine(e, still, kind, updates=True) for e, still in UPDATES]
        yield from (routine for routine in found if routine)


def _samples(routine: MapRoutine, mode: str) -> Iterable[Counts]:
    items: Sequence[int] = ITEMS if routine.unrolled > 1 else FEW_ITEMS
    if mode == "elements" and routine.by_lanes:
        items = LANES_ITEMS
    return [(*loops, count) for loops, count in product(LOOPS, items)]


def map_terms(routine: MapRoutine, mode: str, rows: NestRows) -> list[Value]:
    """The terms of a nest in one mode: call, further rows, the iterations of each loop around them,
    rows, and in each row the trips of the unrolled loop, whether there are any, each chunk after
    it, and, if a row asks for these, whether there is one.
    """
    count, row = rows.rows, rows.row
    many = np.greater(count, 1) * 1.0
    most, *fewer = (chunk.elements for chunk in routine.chunks(mode))
    groups = row // most
    some = [count * np.greater(groups, 0)] if fewer else []
    rest = [count * (row // elements % 2) for elements in fewer]
    if routine.is_short:
        rest.append(count * np.not_equal(row % most, 0))
    return [1 + 0 * count, many, *rows.around, count + 0 * row, count * groups, *some, *rest]


def _call(routine: MapRoutine, mode: str, counts: Sequence[int]) -> Arguments:
    """Arguments and memory of a call for a nest."""
    loops, strides = sampled_loops(mode, counts)
    inside = [e * s for e, s in zip(loops[1:], strides[1:], strict=True)]
    moves = [*(s - i if s else 0 for s, i in zip(strides, inside, strict=False)), strides[-1]]
    steps = [*moves, *(n for same in routine.still for n in ([0] * LEVELS if same else moves))]
    start = routine.precision.element_bytes if mode == "elements" else 0
    return [start, _PLACES_AT, _COUNT_AT, _STEPS_AT], {_COUNT_AT: loops, _STEPS_AT: steps}


MAPS = CoreTimings(
    file=__file__,
    makers=ELEMENTWISE_MAKERS,
    frequent=_frequent_routines,
    samples=_samples,
    terms=lambda routine, mode, counts: map_terms(routine, mode, sampled_rows(mode, counts)),
    call=_call,
)
