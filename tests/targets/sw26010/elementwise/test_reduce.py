"""The routines of reductions on the simulated core: what they compute, keep and take."""

from __future__ import annotations

import ctypes
from itertools import cycle, product
from math import prod
from pathlib import Path

import numpy as np
import pytest

from support.examples import one_in
from support.expressions import TANGLED
from support.held_out import NOT_SAMPLED
from support.routines import assembled
from tilewright.codegen.c.compiler import compiler, run_compiler
from tilewright.ir.scalar import parse_scalar
from tilewright.simulate.instruction_level import simulate_core
from tilewright.targets.sw26010.calls.expressions import header_of
from tilewright.targets.sw26010.elementwise.lie import ELEMENTS, Lie
from tilewright.targets.sw26010.elementwise.reduce import PARTS, ReduceRoutine, reduce_routine
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES
from tilewright.targets.sw26010.timing.derived import SHIPPED_TABLES
from tilewright.targets.sw26010.timing.nests import around
from tilewright.targets.sw26010.timing.reductions import (
    REDUCTIONS,
    Extents,
    reduce_terms,
)

pytestmark = one_in(3)


TABLE = "sw26010_cpe"
KEPT = (9, 10, 11, 12, 13, 14, 15)
COUNT_AT, MOVES_AT, STACK_AT = 57_344, 57_472, 60_000
Y_BYTES, X_AT = 8192, 8192
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 6.0, 1e-300)
GATHERED = [("sum", "x0"), ("sum", "x0 * x0"), ("max", "x0"), ("max", "-x0"), ("max", "ceil(x0)")]
FUNCTIONS = [
    ("sum", "exp(x0)"),
    ("sum", "1.0 / (1.0 + exp(-x0))"),
    ("sum", "pow(abs(x0), 0.75)"),
    ("max", "tanh(x0)"),
    ("max", "expm1(x0)"),
    ("sum", "log1p(exp(-abs(x0))) + (0.0 if x0 < 0.0 else x0)"),
    ("sum", "pow(abs(x0), 2.2)"),
]
ACROSS = [
    Lie(step, taps, loops) for step, taps, loops in product((1, 2, 0), (1, 2, 3), (False, True))
]
ALONG = [Lie(0, along=True), Lie(0, loops=True, along=True)]
SOME = [Lie(1), Lie(1, 2), Lie(2, 3, True), Lie(0), Lie(0, 3, True), *ALONG]


def routine_of(function: str, expression: str, lie: Lie, dtype: str = "f64") -> ReduceRoutine:
    found = reduce_routine(function, expression, lie, dtype)  # type: ignore[arg-type]
    assert found is not None
    return found


class Nest:
    """Two times `rows` rows of `extent` results, `gap` elements between rows; x starts `shift`
    elements behind a vector.
    """

    def __init__(
        self,
        routine: ReduceRoutine,
        rows: int,
        extent: int,
        *,
        gap: int = 0,
        shift: int = 0,
        length: int = 1,
    ) -> None:
        lie, self.routine = routine.lie, routine
        self.size = routine.precision.element_bytes
        self.loops = [2, 3] if lie.loops else [1, 1]
        last = length if lie.along else lie.taps
        step = lie.step or 3
        whole = extent * step + 8 * gap
        if lie.along:
            step, inner, tap = length + gap, rows * extent * (length + gap) * 2, 1
            whole = extent * step
        else:
            inner, tap = 2 * rows * whole + 4 * gap, 4 if gap % 2 == 0 else 5
        y_step = 1 if lie.step else 2
        self.counts = [1, 1, 1, 2, rows, extent, *self.loops, last]
        self.y_strides = [0, 0, 0, rows * (extent * y_step + gap), extent * y_step + gap, y_step]
        self.x_strides = [0, 0, 0, rows * whole, whole, step]
        self.gathered = [inner * self.loops[1], inner, tap]
        self.x_at = X_AT + shift * self.size
        rng = np.random.default_rng(rows + extent)
        room = COUNT_AT // self.size
        self.memory = np.full(65536 // self.size, np.nan, f"f{self.size}")
        self.memory[:room] = rng.normal(size=room)
        where = rng.integers(0, room, room // 16)
        self.memory[where] = rng.choice(SPECIAL, len(where))

    def expected(self) -> np.ndarray:
        """The area of y afterwards: elements in the order of the loops, or in parts."""
        after = self.memory.copy()
        scalar = parse_scalar(self.routine.expression)
        with np.errstate(all="ignore"):
            each = np.broadcast_to(
                scalar.value([self.memory.astype(np.float64)]), self.memory.shape
            ).astype(np.float64)
        y = _grid(self.counts[:6], self.y_strides)
        x = _grid(self.counts[:6], self.x_strides) + self.x_at // self.size
        total = after[y].astype(np.float64)
        for outer, inner in np.ndindex(*self.loops):
            first = x + outer * self.gathered[0] + inner * self.gathered[1]
            total = self._run(total, each, first)
        after[y] = total.astype(after.dtype)
        return after[: Y_BYTES // self.size]

    def _run(self, total: np.ndarray, each: np.ndarray, first: np.ndarray) -> np.ndarray:
        length, tap = self.counts[8], self.gathered[2]
        places = [each[first + i * tap] for i in range(length)]
        if self.routine.lie.along and length >= PARTS:
            whole = length - length % PARTS
            parts = [np.full(total.shape, self.routine.neutral) for _ in range(PARTS)]
            for i, value in enumerate(places[:whole]):
                parts[i % PARTS] = self._gather(parts[i % PARTS], value)
            while len(parts) > 1:
                half = len(parts) // 2
                parts = [self._gather(parts[i], parts[i + half]) for i in range(half)]
            places = [parts[0], *places[whole:]]
        for value in places:
            total = self._gather(total, value)
        return total

    def _gather(self, total: np.ndarray, value: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            if self.routine.function == "sum":
                return total + value
            return np.where(total < value, value, total)

    def run(self) -> np.ndarray:
        """The area of y; asserts that the kept registers are kept."""
        words = self.memory.view(np.int64)
        put = {COUNT_AT: self.counts, MOVES_AT: self.moves()}
        for place, values in put.items():
            words[place // 8 : place // 8 + len(values)] = values
        registers: dict[str, object] = {f"${r}": [r + lane / 8 for lane in range(4)] for r in KEPT}
        registers |= {"$16": 0, "$17": self.x_at, "$18": COUNT_AT, "$19": MOVES_AT}
        done = simulate_core(
            assembled(self.routine.text(), TABLE),
            entry=self.routine.name,
            registers={**registers, "$30": STACK_AT},  # type: ignore[arg-type]
            local_memory=self.memory,
            trace=False,
        )
        for r in KEPT:
            assert np.array_equal(done.registers[r], r + np.arange(4) / 8), f"${r} is lost"
        assert done.integer_registers[30, 0] == STACK_AT
        return done.local_memory.view(self.memory.dtype)[: Y_BYTES // self.size]

    def moves(self) -> list[int]:
        found = []
        for s in (self.y_strides, self.x_strides):
            found += [s[d] - self.counts[d + 1] * s[d + 1] for d in range(5)] + s[5:]
        outer, inner, tap = self.gathered
        return [*found, outer - self.loops[1] * inner, inner, tap]


def _grid(counts: list[int], strides: list[int]) -> np.ndarray:
    pairs = zip(counts, strides, strict=True)
    grids = np.meshgrid(*(np.arange(c) * s for c, s in pairs), indexing="ij")
    return sum(grids).ravel()


def same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    """Of whatever is a number."""
    kind = f"i{found.dtype.itemsize}"
    return bool(
        ((found.view(kind) == expected.view(kind)) | (np.isnan(found) & np.isnan(expected))).all()
    )


SHAPES = [(1, 48, 0, 0), (3, 20, 0, 0), (3, 20, 4, 1), (2, 7, 1, 0), (4, 1, 2, 2), (1, 12, 0, 0)]
"""Rows, results of a row, elements between rows, and behind a vector in front of x."""


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize(("function", "expression"), GATHERED)
@pytest.mark.parametrize("lie", ACROSS, ids=str)
def test_results_of_a_row_take_their_elements_in_order_to_the_bit(
    lie: Lie, function: str, expression: str, dtype: str
) -> None:
    for rows, extent, gap, shift in SHAPES:
        nest = Nest(
            routine_of(function, expression, lie, dtype), rows, extent, gap=gap, shift=shift
        )
        expected = nest.expected()
        assert same_bits(nest.run(), expected), (rows, extent, gap, shift)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize(("function", "expression"), GATHERED)
@pytest.mark.parametrize("lie", ALONG, ids=str)
def test_a_run_is_gathered_in_eight_parts_to_the_bit(
    lie: Lie, function: str, expression: str, dtype: str
) -> None:
    for (rows, extent), (length, gap, shift) in product(
        ((1, 3), (2, 1)), ((32, 0, 0), (8, 0, 0), (19, 1, 0), (49, 0, 0), (50, 2, 1), (5, 3, 2))
    ):
        routine = routine_of(function, expression, lie, dtype)
        nest = Nest(routine, rows, extent, length=length, gap=gap, shift=shift)
        expected = nest.expected()
        assert same_bits(nest.run(), expected), (rows, extent, length, gap, shift)


@pytest.mark.parametrize(
    ("lie", "function", "expression", "dtype"),
    [
        (lie, *one, ("f64", "f32")[(i + j) % 2])
        for i, lie in enumerate(SOME)
        for j, one in enumerate(FUNCTIONS)
    ],
    ids=str,
)
def test_functions_of_elements_are_gathered_as_exactly_as_they_are_computed(
    lie: Lie, function: str, expression: str, dtype: str
) -> None:
    close = {"f64": 1e-14, "f32": 1e-6}[dtype]
    for rows, extent, gap, shift in SHAPES[1:5]:
        routine = routine_of(function, expression, lie, dtype)
        nest = Nest(routine, rows, min(extent, 7), gap=gap, shift=shift, length=19)
        with np.errstate(over="ignore"):
            expected = nest.expected()
        found = nest.run()
        assert np.allclose(found, expected, rtol=close, atol=close, equal_nan=True), (rows, extent)


def test_an_empty_loop_does_nothing() -> None:
    for place in (0, 4, 5, 6, 7):
        nest = Nest(routine_of("sum", "x0", Lie(1, loops=True)), 3, 8)
        before = nest.memory[: Y_BYTES // 8].copy()
        nest.counts[place] = 0
        assert same_bits(nest.run(), before)


def test_a_header_says_what_its_routine_gathers() -> None:
    for function, gathered in (("max", "the largest"), ("sum", "the sum")):
        routine = routine_of(function, "x0 * x0", Lie(1))
        first, *_ = header_of(routine).splitlines()
        assert first == f"/* {routine.name}.h: y = {gathered} of y and x0 * x0. Generated. */"


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_the_twins_in_c_compute_the_same_bits(tmp_path: Path, dtype: str) -> None:
    kinds = list(product(GATHERED, [*ACROSS, *ALONG]))
    routines = [routine_of(*what, lie, dtype) for what, lie in kinds]
    library = compiled_twins(routines, tmp_path)
    for routine, (rows, extent, gap, shift) in product(routines, SHAPES[1:4]):
        nest = Nest(routine, rows, min(extent, 7), gap=gap, shift=shift, length=19)
        expected, memory = nest.expected(), nest.memory.copy()
        arrays = [np.array(values, np.int64) for values in (nest.counts, nest.moves())]
        start = memory.ctypes.data
        places = [start, start + nest.x_at, *(a.ctypes.data for a in arrays)]
        library[f"call_{routine.name}"](*map(ctypes.c_void_p, places))
        assert same_bits(memory[: Y_BYTES // nest.size], expected), (routine, rows, extent)


def compiled_twins(routines: list[ReduceRoutine], folder: Path) -> ctypes.CDLL:
    """A library with a function `call_NAME` for each routine."""
    lines = []
    for routine in routines:
        (folder / f"{routine.name}.h").write_text(header_of(routine), encoding="utf-8")
        lines.append(f'#include "{routine.name}.h"')
        arguments = "void *y, void *x, const long *count, const long *move"
        lines.append(f"void call_{routine.name}({arguments})")
        lines.append(f"{{ {routine.name}(y, x, count, move); }}")
    (folder / "twins.c").write_text("\n".join(lines) + "\n", encoding="utf-8")
    flags = ("-std=gnu99", "-O1", "-ffp-contract=off", "-DTW_MAPS_IN_C", "-shared", "-fPIC")
    run_compiler([*compiler("a test"), *flags, "twins.c", "-o", "twins.so", "-lm"], folder)
    return ctypes.CDLL(str(folder / "twins.so"))


def test_what_there_is_no_routine_for() -> None:
    assert reduce_routine("sum", "x0", Lie(1), "i32") is None
    assert reduce_routine("sum", TANGLED, Lie(1), "f64") is None


PRICED = [
    *((*what, lie) for what in GATHERED for lie in (*ACROSS, *ALONG)),
    *((*FUNCTIONS[1], lie) for lie in SOME),
]


@pytest.mark.parametrize(
    ("function", "expression", "lie", "table"),
    [(*one, table) for one, table in zip(PRICED, cycle(SHIPPED_TABLES))],
    ids=str,
)
def test_every_price_is_the_simulated_cycles_also_where_it_was_not_sampled(
    function: str, expression: str, lie: Lie, table: str
) -> None:
    routine = routine_of(function, expression, lie)
    found = REDUCTIONS.timing(table, routine)
    gathering = cycle(((2, 3), (5, 1), (2, 2)) if lie.loops else ((1, 1),))
    lengths = cycle((31, 12, 7, 1, 16) if lie.along else (lie.taps,))
    for mode, fit in found.items():
        assert fit.worst_error == 0
        size = 1 if mode == ELEMENTS or lie.along else VECTOR_LANES
        for *loops, items in NOT_SAMPLED[::4]:
            outer, inner = next(gathering)
            extents = Extents(prod(loops), items * size, outer, inner, next(lengths), around(loops))
            terms = reduce_terms(routine, mode, extents)
            priced = float(fit.cycles(terms))
            exact = REDUCTIONS.cycles(table, routine, mode, (loops, extents))
            assert priced == pytest.approx(exact, rel=1e-9), (mode, loops, extents)
