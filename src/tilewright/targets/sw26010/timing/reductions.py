"""What the routines of reductions take on a core: derived from their own text by simulating it.

In: a routine and an instruction table. Out: for each of its modes the coefficients of the form that
follows the code, and how far they are from the simulated cycles. Those of frequent routines come
with tilewright for the shipped cores, and are used while the table and what makes the text are
those that they were derived from; others are derived when they are asked for, in a second at most,
and kept in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from pathlib import Path

import msgspec
import numpy as np

from tilewright.common.digest import PACKAGE, digest, digest_of_files
from tilewright.common.expr import Value
from tilewright.ir.primitives.maps import Gathering
from tilewright.isa import load_table
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.program import Program
from tilewright.targets.sw26010.calls.nest_rows import OUTER_LOOPS
from tilewright.targets.sw26010.elementwise.reduce import ELEMENTS, LANES, PARTS, Lie, ReduceRoutine
from tilewright.targets.sw26010.elementwise.reduce_text import LEVELS, reduce_routine, reduce_text
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES
from tilewright.targets.sw26010.timing.gemm import SHIPPED_TABLES, table_timing
from tilewright.targets.sw26010.timing.shipped import read_timings, routine_timing, write_timings
from tilewright.targets.sw26010.timing.vector import (
    LOOPS,
    Fitted,
    around,
    assembled,
    fitted,
    memory_words,
)

TIMINGS = "reductions.json"
"""What `write_shipped` gives; `pytest tests/targets/sw26010 --update-golden` writes it anew."""
MAKERS = (
    "isa/dependence.py",
    "isa/operations.py",
    "isa/reorder.py",
    "targets/sw26010/gemm/parts.py",
    "targets/sw26010/gemm/shape.py",
    "targets/sw26010/elementwise/code.py",
    "targets/sw26010/elementwise/expression.py",
    "targets/sw26010/elementwise/functions.py",
    "targets/sw26010/elementwise/lanes.py",
    "targets/sw26010/elementwise/logarithms.py",
    "targets/sw26010/elementwise/powers.py",
    "targets/sw26010/elementwise/reduce.py",
    "targets/sw26010/elementwise/reduce_along.py",
    "targets/sw26010/elementwise/reduce_text.py",
    "targets/sw26010/elementwise/steps.py",
    "targets/sw26010/elementwise/sums.py",
)
"""What makes the routines' texts."""
FREQUENT: tuple[tuple[Gathering, str, Lie], ...] = (
    *(("max", "x0", Lie(step, taps)) for step in (1, 2, 0) for taps in (1, 3)),
    *(("max", "x0", Lie(step, taps, loops=True)) for step in (1, 2, 0) for taps in (2, 3)),
    *(("sum", "x0", Lie(step, taps, loops=True)) for step in (1, 2, 0) for taps in (1, 2)),
    *(("sum", "x0 * x0", Lie(step)) for step in (1, 0)),
    *((function, "x0", Lie(0, along=True)) for function in ("max", "sum")),
)
"""What is gathered: windows of pooling, averages, squares of neighbouring channels, and largest and
sum of a softmax.
"""
GATHERING = ((1, 1), (1, 4), (3, 2))
"""Iterations of the two loops that gather."""
ITEMS = (1, 2, 3, 4, 7, 13, 24)
RUNS, RESULTS = (1, 5, 8, 9, 24, 47, 80), (1, 2, 5)
_COUNT_AT, _MOVES_AT, _STACK_AT = 60_000, 60_128, 59_392


@dataclass(frozen=True)
class Extents:
    """`rows` of so many results, and what gathers a result: two loops, and a run's length.
    `around` are for each loop around that over the rows, innermost first, its iterations in all
    beyond the first.
    """

    rows: Value
    row: Value
    outer: Value = 1
    inner: Value = 1
    length: Value = 1
    around: tuple[Value, ...] = (0,) * OUTER_LOOPS


class ReduceTiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A routine in each of its modes."""

    modes: dict[str, Fitted]


class ReduceTimings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The timings of one core; `question` is a digest of all that they are derived from."""

    question: str
    routines: dict[str, ReduceTiming]


def reduce_terms(routine: ReduceRoutine, mode: str, extents: Extents) -> list[Value]:
    """The terms of a call: the call, further rows, for each loop around them how often it goes
    around, rows; what is done in each row, of every item and of every iteration of the loops that
    gather.
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


def reduce_timing(table: str, routine: ReduceRoutine) -> ReduceTiming:
    """The timing of a routine on a core: shipped, kept, or derived now."""
    return _timing(table, routine)


@cache
def _timing(table: str, routine: ReduceRoutine) -> ReduceTiming:
    asked, shipped = question(table), shipped_timings().get(table)
    return routine_timing(
        shipped, asked, routine.name, ReduceTiming, lambda: derive(table, routine)
    )


@cache
def question(table: str) -> str:
    """Digest of the instruction table, the samples and what makes the routines' texts."""
    makers = digest_of_files(PACKAGE, MAKERS)
    samples = repr((LOOPS, ITEMS, GATHERING, RUNS, RESULTS))
    return digest(samples, table_timing(load_table(table)), makers)[:16]


@cache
def shipped_timings() -> Mapping[str, ReduceTimings]:
    """What was derived for the shipped cores, by instruction table."""
    return read_timings(TIMINGS, ReduceTimings)


def frequent_routines() -> tuple[ReduceRoutine, ...]:
    """The routines whose timings are shipped."""
    found = (reduce_routine(*what, kind) for kind in ("f64", "f32") for what in FREQUENT)
    return tuple(routine for routine in found if routine)


def derive_frequent(table: str) -> ReduceTimings:
    """The timings of the frequent routines, derived now."""
    return ReduceTimings(question(table), {r.name: derive(table, r) for r in frequent_routines()})


def write_shipped(path: Path) -> None:
    """Derive the timings of the shipped cores and write the file that ships them."""
    write_timings(path, {name: derive_frequent(name) for name in SHIPPED_TABLES})


def derive(table: str, routine: ReduceRoutine) -> ReduceTiming:
    """Simulate samples of a routine and fit the form to them."""
    program = assembled(reduce_text(routine), table)
    return ReduceTiming({mode: _derived(routine, program, mode) for mode in routine.lie.modes})


def _derived(routine: ReduceRoutine, program: Program, mode: str) -> Fitted:
    terms, cycles = [], []
    for nest, extents in _samples(routine, mode):
        terms.append(reduce_terms(routine, mode, extents))
        cycles.append(reduce_cycles(routine, program, mode, nest, extents))
    return fitted(terms, cycles, routine.name)


def _samples(routine: ReduceRoutine, mode: str) -> list[tuple[tuple[int, ...], Extents]]:
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


def reduce_cycles(
    routine: ReduceRoutine,
    program: Program,
    mode: str,
    loops: Sequence[int],
    extents: Extents,
) -> int:
    """Cycles of a call in so many loops of rows, outermost first, in one of the routine's modes.
    Rows start a vector apart, or an element, and so do runs: how long they take does not depend on
    where they lie.
    """
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
    registers = {"$16": 0, "$17": 0, "$18": _COUNT_AT, "$19": _MOVES_AT, "$30": _STACK_AT}
    if mode == ELEMENTS:
        registers["$16"] = registers["$17"] = routine.precision.element_bytes
    if mode == LANES:
        registers["$17"] = routine.precision.element_bytes
    memory = np.zeros(memory_words(), np.int64)
    for place, values in ((_COUNT_AT, counts), (_MOVES_AT, moves)):
        memory[place // 8 : place // 8 + len(values)] = values
    run_of = simulate_core(
        program, entry=routine.name, registers=registers, local_memory=memory, trace=False
    )
    return run_of.cycles
