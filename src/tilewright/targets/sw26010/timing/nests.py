"""Cycles of the elementwise routines without an expression: nests of loops, and rows of a tile.

In: a `Routine`. Out: the terms of the form that follows its code, and the arguments of a call of
it, by vectors and by elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.common.expr import Value
from tilewright.isa import load_table
from tilewright.simulate.instruction_level import cycles_apart, simulate_core
from tilewright.simulate.program import AssembledProgram, encode_program
from tilewright.simulate.runs import CoreRun
from tilewright.targets.sw26010.calls.nest_rows import OUTER_LOOPS, NestRows
from tilewright.targets.sw26010.elementwise.code import MODES, halves, item_elements
from tilewright.targets.sw26010.elementwise.loops import LEVELS
from tilewright.targets.sw26010.elementwise.maps import MapRoutine
from tilewright.targets.sw26010.elementwise.reduce import ReduceRoutine
from tilewright.targets.sw26010.elementwise.routines import UNROLLED, Routine, all_routines
from tilewright.targets.sw26010.timing.derived import (
    ELEMENTWISE_MAKERS,
    SHIPPED_TABLES,
    Derived,
    Sample,
)

ROWS, ITEMS, FEW_ITEMS = (0, 1, 2, 5, 12), (1, 2, 3, 5, 8, 13, 24), (1, 2, 3, 5)
LOOPS = ((1,), (2,), (5,), (2, 2), (3, 4), (2, 1, 2), (2, 2, 2), (2, 1, 1, 2), (2, 1, 1, 1, 2))
"""Loops around the items of the samples of a nest, outermost first."""
CHANGES = ((9, 8), (16, 12), (29, 16), (8, 7), (24, 21), (33, 3), (16, 8), (20, 4), (2, 1), (3, 2))
"""Larger and smaller length of a row, in items."""
STACK_AT = 59_392
_COUNT_AT, _Y_STRIDES_AT, _X_STRIDES_AT = 60_000, 60_064, 60_128
Counts = tuple[int, ...]
Arguments: TypeAlias = tuple[Sequence[int], Mapping[int, Sequence[int]]]
"""Arguments of a call, from $16 on, and words of the memory by their place."""
AnyRoutine: TypeAlias = Routine | MapRoutine | ReduceRoutine
Emitted = TypeVar("Emitted", bound=AnyRoutine)


def nest_terms(_: Routine, mode: str, rows: NestRows) -> list[Value]:
    """The terms of a nest over tiles: call, further rows, the iterations of each loop around them,
    rows, and items.
    """
    count, items = rows.rows, rows.items
    many = np.greater(count, 1) * 1.0
    return [1 + 0 * count, many, *rows.around, count + 0 * items, count * items]


def sampled_rows(mode: str, counts: Sequence[int]) -> NestRows:
    """The rows of a nest with these iteration counts, outermost first, the last in items."""
    *loops, items = counts
    vectors = mode == MODES[0]
    return NestRows(items * item_elements(mode), prod(loops), around(loops), vectors)


def around(loops: Sequence[int]) -> tuple[int, ...]:
    """`Rows.around` for these iteration counts, outermost first, the last over rows."""
    outside = (loops[: max(len(loops) - 1 - i, 0)] for i in range(OUTER_LOOPS))
    return tuple(prod(extents) - 1 for extents in outside)


def rows_terms(grows: bool, rows: Value, larger: Value, smaller: Value) -> list[Value]:
    """The terms of a tile whose rows change length: the call, with or without rows, moved rows, and
    zeros if it grows.
    """
    some = np.greater(rows, 0) * 1.0
    moved = [np.maximum(rows - 1, 0) * term for term in _row_terms(smaller)]
    zeros: list[Value] = [0] * len(moved)
    if grows:
        zeros = [rows * term for term in _row_terms(larger - smaller)]
    return [1 - some, some, int(grows) * some, *moved, *zeros]


def _row_terms(items: Value) -> list[Value]:
    """The row, the trips of the unrolled loop, whether there are any, and of the rest whether there
    is one and each of its parts.
    """
    bits = UNROLLED - 1, *halves(UNROLLED)
    parts = [np.not_equal(items & some, 0) * 1 for some in bits]
    return [1 + 0 * items, items // UNROLLED, np.greater_equal(items, UNROLLED) * 1, *parts]


def _samples(routine: Routine, _: str) -> Iterable[Counts]:
    """Counts of a nest, outermost first, the last of items; or rows, new and old items of each."""
    if routine.work is None:
        changes = [*CHANGES, *((old, new) for new, old in CHANGES)]
        return [(rows, *change) for rows, change in product(ROWS, changes)]
    return [(*loops, count) for loops, count in product(LOOPS, FEW_ITEMS)]


def sampled_terms(routine: Routine, mode: str, counts: Sequence[int]) -> list[Value]:
    """The terms of a sample."""
    if routine.work is None:
        rows, new, old = counts
        return rows_terms(new > old, rows, max(new, old), min(new, old))
    return nest_terms(routine, mode, sampled_rows(mode, counts))


def _call(routine: Routine, mode: str, counts: Sequence[int]) -> Arguments:
    """Arguments and memory of a sample's call."""
    if routine.work is None:
        rows, new, old = counts
        size = item_elements(mode)
        arguments, words = [0, rows, new * size, old * size], {}
    else:
        extents, strides = sampled_loops(mode, counts)
        words = {_COUNT_AT: extents, _Y_STRIDES_AT: strides, _X_STRIDES_AT: strides}
        words[STACK_AT] = [0, 0, 0]
        arguments = [0, 0, *words]
    if mode == "elements":
        arguments[0] = routine.precision.element_bytes
    return arguments, words


def sampled_loops(mode: str, counts: Sequence[int]) -> tuple[list[int], list[int]]:
    """(extents, distances in elements) of all loops of a nest with these iteration counts. Rows
    start a vector apart, or an element: their cycles do not depend on their addresses.
    """
    *loops, items = counts
    distance = item_elements(mode)
    extents = [*(1,) * (LEVELS - len(counts)), *loops, items * distance]
    return extents, [*(distance * (extent > 1) for extent in extents[:-1]), 1]


@cache
def encoded(routine: AnyRoutine, table: str) -> AssembledProgram:
    """The code of a routine on the simulated core; its text assembles to the same."""
    return encode_program(routine.code().instructions, load_table(table))


@dataclass(frozen=True, eq=False)
class CoreTimings(Derived[Emitted, Sample]):
    """The timings of routines that one core runs; `call` gives the arguments of a sample."""

    call: Callable[[Emitted, str, Sample], Arguments]

    def run(self, table: str, routine: Emitted, mode: str, sample: Sample) -> CoreRun:
        """The run of one sample."""
        call = self.call(routine, mode, sample)
        return simulate_core(
            encoded(routine, table),
            entry=routine.name,
            registers=_registers(call),
            local_memory=_memory(call),
            trace=False,
        )

    def cycles(self, table: str, routine: Emitted, mode: str, sample: Sample) -> int:
        """Cycles of one sample."""
        return self.run(table, routine, mode, sample).cycles

    def simulate(
        self, table: str, routine: Emitted, mode: str, samples: Sequence[Sample]
    ) -> list[int]:
        calls = [self.call(routine, mode, sample) for sample in samples]
        return cycles_apart(
            encoded(routine, table),
            entry=routine.name,
            registers=[_registers(call) for call in calls],
            local_memory=[_memory(call) for call in calls],
        )


def _registers(call: Arguments) -> dict[str, int]:
    given = {f"${16 + i}": value for i, value in enumerate(call[0][:5])}
    return {**given, "$30": STACK_AT}


def _memory(call: Arguments) -> NDArray[np.int64]:
    memory = np.zeros(load_table(SHIPPED_TABLES[0]).local_memory_bytes // 8, np.int64)
    for place, values in call[1].items():
        memory[place // 8 : place // 8 + len(values)] = values
    return memory


NESTS = CoreTimings(
    file=__file__,
    makers=ELEMENTWISE_MAKERS,
    frequent=all_routines,
    samples=_samples,
    terms=sampled_terms,
    call=_call,
)
