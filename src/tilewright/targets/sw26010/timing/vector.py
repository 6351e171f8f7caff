"""What the elementwise routines take on a core: derived from their own text by simulating it.

In: an instruction table. Out: for each routine and each of its ways, by vectors and by elements,
the coefficients of the form that follows its code, and how far it is from the simulated cycles.
What is derived for the shipped cores comes with tilewright; it is used while the table and what
makes the text are those that it was derived from. Others are derived when they are asked for, and
kept in the cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tilewright.asm import assemble, link
from tilewright.codegen.fitting import fit_relative
from tilewright.common.cache import Cache
from tilewright.common.digest import PACKAGE, digest, digest_of_files
from tilewright.common.expr import Value
from tilewright.isa import load_table
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.program import Program
from tilewright.targets.sw26010.calls.nest_rows import OUTER_LOOPS, Rows
from tilewright.targets.sw26010.elementwise.code import MODES, item_elements
from tilewright.targets.sw26010.elementwise.nest import LEVELS
from tilewright.targets.sw26010.elementwise.routines import Routine, all_routines
from tilewright.targets.sw26010.elementwise.rows import UNROLLED
from tilewright.targets.sw26010.timing.gemm import SHIPPED_TABLES, table_timing
from tilewright.targets.sw26010.timing.shipped import read_timings, write_timings

TIMINGS = "vector.json"
"""What `derive_timings` gives; `pytest tests/targets/sw26010 --update-golden` writes it anew."""
MAKERS = (
    "ir/winograd.py",
    "isa/dependence.py",
    "isa/operations.py",
    "isa/reorder.py",
    "targets/sw26010/gemm/parts.py",
    "targets/sw26010/gemm/shape.py",
    "targets/sw26010/elementwise/code.py",
    "targets/sw26010/elementwise/nest.py",
    "targets/sw26010/elementwise/routines.py",
    "targets/sw26010/elementwise/rows.py",
    "targets/sw26010/elementwise/sums.py",
    "targets/sw26010/elementwise/winograd.py",
    "targets/sw26010/elementwise/works.py",
)
"""What makes the routines' texts, which take seconds to make."""
ROWS, ITEMS, FEW_ITEMS = (0, 1, 2, 5, 12), (1, 2, 3, 5, 8, 13, 24), (1, 2, 3, 5)
LOOPS = ((1,), (2,), (5,), (2, 2), (3, 4), (2, 1, 2), (2, 2, 2), (2, 1, 1, 2), (2, 1, 1, 1, 2))
"""Loops around the items of the samples of a nest, outermost first."""
CHANGES = ((9, 8), (16, 12), (29, 16), (8, 7), (24, 21), (33, 3), (16, 8), (20, 4), (2, 1), (3, 2))
"""Larger and smaller length of a row, in items."""
Words: TypeAlias = NDArray[np.int64]
_COUNT_AT, _Y_STRIDES_AT, _X_STRIDES_AT, _STACK_AT = 60_000, 60_064, 60_128, 59_392


class Fitted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form's coefficients, and its relative errors over the samples."""

    coefficients: tuple[float, ...]
    mean_error: float
    worst_error: float


class RoutineTiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A routine by vectors and by elements."""

    vectors: Fitted
    elements: Fitted


class VectorTimings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The timings of one core; `question` is a digest of all that they are derived from."""

    question: str
    routines: dict[str, RoutineTiming]


def nest_terms(unrolled: int, rows: Rows) -> list[Value]:
    """The terms of a nest: call, further rows, for each loop around them how often it goes around,
    rows, and in each row the trips of the unrolled loop and of the loop behind it, and whether
    there are any. Behind a loop of two items there is one or none.
    """
    count, items = rows.rows, rows.items
    many = np.greater(count, 1) * 1.0
    in_rows = (count * term for term in _row_terms(unrolled, items))
    return [1 + 0 * count, many, *rows.around, *in_rows]


def sampled_rows(mode: str, counts: Sequence[int]) -> Rows:
    """The rows of a nest of so many iterations, outermost first, of which the last are items."""
    *loops, items = counts
    vectors = mode == MODES[0]
    return Rows(items * item_elements(mode), prod(loops), around(loops), vectors)


def around(loops: Sequence[int]) -> tuple[int, ...]:
    """`Rows.around` of so many iterations of the loops, outermost first, the last over rows."""
    outside = (loops[: max(len(loops) - 1 - i, 0)] for i in range(OUTER_LOOPS))
    return tuple(prod(extents) - 1 for extents in outside)


def rows_terms(grows: bool, rows: Value, larger: Value, smaller: Value) -> list[Value]:
    """The terms of a tile whose rows change: the call, without rows or with some, moved rows, and
    zeros where it grows.
    """
    some = np.greater(rows, 0) * 1.0
    moved = [np.maximum(rows - 1, 0) * term for term in _row_terms(UNROLLED, smaller)]
    zeros: list[Value] = [0] * len(moved)
    if grows:
        zeros = [rows * term for term in _row_terms(UNROLLED, larger - smaller)]
    return [1 - some, some, int(grows) * some, *moved, *zeros]


def _row_terms(unrolled: int, items: Value) -> list[Value]:
    if unrolled == 1:
        return [1 + 0 * items, items]
    groups = items // unrolled
    rest = items - groups * unrolled
    terms = [1 + 0 * items, groups, np.greater(groups, 0) * 1, rest]
    return terms if unrolled == 2 else [*terms, np.greater(rest, 0) * 1]


@cache
def timings_of(table: str) -> VectorTimings:
    """The timings of a core: shipped, kept, or derived now."""
    asked = question(table)
    shipped = shipped_timings().get(table)
    if shipped is not None and shipped.question == asked:
        return shipped
    return Cache("primitives").value(asked, VectorTimings, lambda: derive_timings(table))


@cache
def question(table: str) -> str:
    """Digest of the instruction table, the samples and what makes the routines' texts."""
    samples = repr((ROWS, LOOPS, ITEMS, FEW_ITEMS, CHANGES))
    makers = digest_of_files(PACKAGE, MAKERS)
    return digest(samples, table_timing(load_table(table)), makers)[:16]


def shipped_timings() -> Mapping[str, VectorTimings]:
    """What was derived for the shipped cores, by instruction table."""
    return read_timings(TIMINGS, VectorTimings)


def write_shipped(path: Path) -> None:
    """Derive the timings of the shipped cores and write the file that ships them."""
    write_timings(path, {name: derive_timings(name) for name in SHIPPED_TABLES})


def derive_timings(table: str) -> VectorTimings:
    """Simulate samples of every routine and fit the forms to them."""
    found = {}
    for routine in all_routines():
        program = routine_program(routine, table)
        ways = (_derived(routine, program, mode) for mode in MODES)
        found[routine.name] = RoutineTiming(*ways)
    return VectorTimings(question(table), found)


def routine_program(routine: Routine, table_name: str) -> Program:
    """The routine's text, assembled and linked, on the simulated core."""
    return assembled(routine.text(), table_name)


def assembled(text: str, table_name: str) -> Program:
    """A text, assembled and linked, on the simulated core."""
    table = load_table(table_name)
    return load_image(link([assemble(text, table)], table), table).program


def _derived(routine: Routine, program: Program, mode: str) -> Fitted:
    terms, cycles = [], []
    work = routine.work
    if work is None:
        for rows, (larger, smaller), grows in product(ROWS, CHANGES, (True, False)):
            terms.append(rows_terms(grows, rows, larger, smaller))
            new, old = (larger, smaller) if grows else (smaller, larger)
            cycles.append(rows_cycles(routine, program, mode, (rows, new, old)))
    else:
        for loops, items in product(LOOPS, ITEMS if work.unrolled > 1 else FEW_ITEMS):
            terms.append(nest_terms(work.unrolled, sampled_rows(mode, (*loops, items))))
            cycles.append(nest_cycles(routine, program, mode, (*loops, items)))
    return fitted(terms, cycles, routine.name)


def fitted(terms: Sequence[Sequence[Value]], cycles: Sequence[int], form: str) -> Fitted:
    """The coefficients of the terms for these samples, and their errors."""
    names = [str(number) for number in range(len(terms[0]))]
    solution = fit_relative(terms, cycles, names, form)
    coefficients = tuple(round(float(value), 3) for value in solution)
    errors = np.abs(np.asarray(terms, float) @ coefficients / cycles - 1)
    return Fitted(coefficients, *(round(float(e), 5) for e in (errors.mean(), errors.max())))


def nest_cycles(routine: Routine, program: Program, mode: str, counts: Sequence[int]) -> int:
    """Cycles of a nest of so many iterations, outermost first, of which the last are items."""
    extents, strides = sampled_loops(mode, counts)
    memory = np.zeros(memory_words(), np.int64)
    arguments = {"$16": 0, "$17": 0, "$18": _COUNT_AT, "$19": _Y_STRIDES_AT, "$20": _X_STRIDES_AT}
    if routine.work is not None and not routine.work.has_source:
        arguments = {"$16": 0, "$17": _COUNT_AT, "$18": _Y_STRIDES_AT, "$19": 0}
    _put(memory, _COUNT_AT, extents)
    for place in (_Y_STRIDES_AT, _X_STRIDES_AT):
        _put(memory, place, strides)
    _put(memory, _STACK_AT, [0, 0, 0])
    if mode == "elements":
        arguments["$16"] = routine.precision.element_bytes
    return _run(program, routine.name, arguments, memory)


def sampled_loops(mode: str, counts: Sequence[int]) -> tuple[list[int], list[int]]:
    """(extents, distances in elements) of all loops of a nest of so many iterations. Rows start a
    vector apart, or an element: how long they take does not depend on where they lie.
    """
    *loops, items = counts
    distance = item_elements(mode)
    extents = [*(1,) * (LEVELS - len(counts)), *loops, items * distance]
    return extents, [*(distance * (extent > 1) for extent in extents[:-1]), 1]


def rows_cycles(routine: Routine, program: Program, mode: str, change: tuple[int, int, int]) -> int:
    """Cycles of `rows` rows that get `new` items for `old` ones."""
    rows, new, old = change
    size = item_elements(mode)
    arguments = {"$16": 0, "$17": rows, "$18": new * size, "$19": old * size}
    if mode == "elements":
        arguments["$16"] = routine.precision.element_bytes
    return _run(program, routine.name, arguments, np.zeros(memory_words(), np.int64))


def memory_words() -> int:
    """Words of a core's local memory."""
    return load_table(SHIPPED_TABLES[0]).local_memory_bytes // 8


def _put(memory: Words, place: int, values: Sequence[int]) -> None:
    memory[place // 8 : place // 8 + len(values)] = values


def _run(program: Program, name: str, arguments: dict[str, int], memory: Words) -> int:
    registers = {**arguments, "$30": _STACK_AT}
    run = simulate_core(program, entry=name, registers=registers, local_memory=memory, trace=False)
    return run.cycles
