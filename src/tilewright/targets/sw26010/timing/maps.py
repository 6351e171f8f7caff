"""What the routines of maps take on a core: derived from their own text by simulating it.

In: a routine and an instruction table. Out: the coefficients of the form of `map_terms`, by
vectors and by elements, and how far they are from the simulated cycles. Those of frequent
expressions come with tilewright for the shipped cores, and are used while the table and what makes
the text are those that they were derived from; others are derived when they are asked for, in a
fraction of a second, and kept in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from tilewright.common.digest import PACKAGE, digest, digest_of_files
from tilewright.common.expr import Value
from tilewright.isa import load_table
from tilewright.seeds.pooling import POOLED, PoolWindows
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.program import Program
from tilewright.targets.sw26010.calls.nest_rows import Rows
from tilewright.targets.sw26010.elementwise.code import MODES
from tilewright.targets.sw26010.elementwise.maps import MapRoutine, map_routine
from tilewright.targets.sw26010.elementwise.operands import LEVELS
from tilewright.targets.sw26010.timing.gemm import SHIPPED_TABLES, table_timing
from tilewright.targets.sw26010.timing.shipped import read_timings, routine_timing, write_timings
from tilewright.targets.sw26010.timing.vector import (
    FEW_ITEMS,
    ITEMS,
    LOOPS,
    Fitted,
    RoutineTiming,
    VectorTimings,
    assembled,
    fitted,
    memory_words,
    sampled_loops,
    sampled_rows,
)

TIMINGS = "maps.json"
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
    "targets/sw26010/elementwise/maps.py",
    "targets/sw26010/elementwise/operands.py",
    "targets/sw26010/elementwise/powers.py",
    "targets/sw26010/elementwise/steps.py",
    "targets/sw26010/elementwise/sums.py",
)
"""What makes the routines' texts."""
_BIASED, _SCALED = "x0 + x1", "x0 * x1 + x2"
FREQUENT: tuple[tuple[str, tuple[bool, ...]], ...] = (
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
"""Expressions, and which operands stay the same along a row: copies, ReLU, bias, residual sums,
batch normalisation, tanh, the powers and the quotient of a softmax, AlexNet's normalisation, and
windows of two rows and columns.
"""
LANES_ITEMS = (1, 2, 3, 5, 6, 8, 13, 16, 24, 37, 52)
"""Elements of rows of samples of what brings them together to vectors."""
_PLACES_AT, _COUNT_AT, _STEPS_AT, _STACK_AT = 60_000, 60_064, 60_128, 59_392


def map_timing(table: str, routine: MapRoutine) -> RoutineTiming:
    """The timing of a routine on a core: shipped, kept, or derived now."""
    return _timing(table, routine)


@cache
def _timing(table: str, routine: MapRoutine) -> RoutineTiming:
    asked, shipped = question(table), shipped_timings().get(table)
    return routine_timing(
        shipped, asked, routine.name, RoutineTiming, lambda: derive(table, routine)
    )


@cache
def question(table: str) -> str:
    """Digest of the instruction table, the samples and what makes the routines' texts."""
    makers = digest_of_files(PACKAGE, MAKERS)
    samples = repr((LOOPS, ITEMS, FEW_ITEMS, LANES_ITEMS))
    return digest(samples, table_timing(load_table(table)), makers)[:16]


@cache
def shipped_timings() -> Mapping[str, VectorTimings]:
    """What was derived for the shipped cores, by instruction table."""
    return read_timings(TIMINGS, VectorTimings)


def frequent_routines() -> tuple[MapRoutine, ...]:
    """The routines whose timings are shipped."""
    found = (map_routine(e, still, t) for t in ("f64", "f32") for e, still in FREQUENT)
    return tuple(routine for routine in found if routine)


def derive_frequent(table: str) -> VectorTimings:
    """The timings of the frequent routines, derived now."""
    return VectorTimings(question(table), {r.name: derive(table, r) for r in frequent_routines()})


def write_shipped(path: Path) -> None:
    """Derive the timings of the shipped cores and write the file that ships them."""
    write_timings(path, {name: derive_frequent(name) for name in SHIPPED_TABLES})


def derive(table: str, routine: MapRoutine) -> RoutineTiming:
    """Simulate samples of a routine and fit the form to them."""
    program = assembled(routine.text(), table)
    return RoutineTiming(*(_derived(routine, program, mode) for mode in MODES))


def _derived(routine: MapRoutine, program: Program, mode: str) -> Fitted:
    terms, cycles = [], []
    for loops, items in product(LOOPS, _sampled(routine, mode)):
        terms.append(map_terms(routine, mode, sampled_rows(mode, (*loops, items))))
        cycles.append(map_cycles(routine, program, mode, (*loops, items)))
    return fitted(terms, cycles, routine.name)


def _sampled(routine: MapRoutine, mode: str) -> tuple[int, ...]:
    if mode == "elements" and routine.by_lanes:
        return LANES_ITEMS
    return ITEMS if routine.unrolled > 1 else FEW_ITEMS


def map_terms(routine: MapRoutine, mode: str, rows: Rows) -> list[Value]:
    """The terms of a nest in one mode: call, further rows, for each loop around them how often it
    goes around, rows, and in each row the trips of the unrolled loop, whether there are any, and
    each chunk behind it.
    """
    count, row = rows.rows, rows.row
    many = np.greater(count, 1) * 1.0
    most, *fewer = (chunk.elements for chunk in routine.chunks(mode))
    groups = row // most
    some = [count * np.greater(groups, 0)] if fewer else []
    rest = (count * (row // elements % 2) for elements in fewer)
    return [1 + 0 * count, many, *rows.around, count + 0 * row, count * groups, *some, *rest]


def map_cycles(routine: MapRoutine, program: Program, mode: str, counts: Sequence[int]) -> int:
    """Cycles of a nest of so many iterations, outermost first, of which the last are items."""
    loops, strides = sampled_loops(mode, counts)
    memory = np.zeros(memory_words(), np.int64)
    inside = [e * s for e, s in zip(loops[1:], strides[1:], strict=True)]
    moves = [*(s - i if s else 0 for s, i in zip(strides, inside, strict=False)), strides[-1]]
    steps = [
        [0] * LEVELS if operand and routine.still[operand - 1] else moves
        for operand in range(1 + len(routine.still))
    ]
    for place, values in ((_COUNT_AT, loops), (_STEPS_AT, [n for step in steps for n in step])):
        memory[place // 8 : place // 8 + len(values)] = values
    start = routine.precision.element_bytes if mode == "elements" else 0
    registers = {"$16": start, "$17": _PLACES_AT, "$18": _COUNT_AT, "$19": _STEPS_AT}
    registers["$30"] = _STACK_AT
    run = simulate_core(
        program, entry=routine.name, registers=registers, local_memory=memory, trace=False
    )
    return run.cycles
