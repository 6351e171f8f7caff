"""The elementwise routines in assembly: what they compute, keep and take, on the simulated core."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from support.examples import one_in
from support.held_out import NOT_SAMPLED
from support.routines import assembled
from tilewright.ir.winograd import transforms
from tilewright.isa import load_table
from tilewright.simulate.instruction_level import simulate_core
from tilewright.targets.sw26010.elementwise.code import MODES, item_elements
from tilewright.targets.sw26010.elementwise.routines import all_routines
from tilewright.targets.sw26010.timing.derived import SHIPPED_TABLES
from tilewright.targets.sw26010.timing.nests import (
    NESTS,
    nest_terms,
    rows_terms,
    sampled_rows,
)

pytestmark = one_in(3)


TABLE = "sw26010_cpe"
ROUTINES = {routine.name: routine for routine in all_routines()}
NAMES = [name for name, routine in ROUTINES.items() if routine.work]
KEPT = (9, 10, 11, 12, 13, 14, 15, 29, 30)
ARGUMENTS_AT, STACK_AT = 60_000, 59_000
X_AT = 24_576


class Nest:
    """A call on local memory: outer x rows rows of `extent` elements, `gap` elements apart."""

    def __init__(self, name: str, *, rows: int, extent: int, gap: int = 0, outer: int = 2) -> None:
        self.routine = ROUTINES[name]
        self.size = self.routine.precision.element_bytes
        self.counts = [1, 1, 1, outer, rows, extent]
        self.strides = [0, 0, 0, rows * (extent + gap), extent + gap, 1]
        self.memory = np.full(65536 // self.size, np.nan, f"f{self.size}")
        self.words = self.memory.view(np.int64)
        rng = np.random.default_rng(extent + rows)
        self.span = outer * rows * (extent + gap)
        for start in (0, X_AT // self.size):
            room = X_AT // self.size
            self.memory[start : start + room] = rng.integers(-8, 9, room)

    def places(self, start_bytes: int = 0) -> np.ndarray:
        """Positions of all elements, outermost loop first."""
        grids = [np.arange(c) * s for c, s in zip(self.counts, self.strides, strict=True)]
        return start_bytes // self.size + sum(np.meshgrid(*grids, indexing="ij")).ravel()

    def run(self, sixth: int, stacked: tuple[int, ...]) -> np.ndarray:
        """The memory afterwards; asserts that the kept registers are kept."""
        at = ARGUMENTS_AT // 64 * 64
        for number, values in enumerate((self.counts, self.strides, self.strides)):
            place = (at + 64 * number) // 8
            self.words[place : place + 6] = values
        stack = STACK_AT // 8 * 8
        self.words[stack // 8 : stack // 8 + len(stacked)] = stacked
        registers: dict[str, object] = {f"${r}": [r + lane / 8 for lane in range(4)] for r in KEPT}
        given = [0, X_AT, at, at + 64, at + 128, sixth]
        registers |= {f"${16 + i}": value for i, value in enumerate(given)} | {"$30": stack}
        program = assembled(self.routine.text(), TABLE)
        done = simulate_core(
            program,
            entry=self.routine.name,
            registers=registers,
            local_memory=self.memory,
            trace=False,
        )
        for r in KEPT[:-2]:
            assert np.array_equal(done.registers[r], r + np.arange(4) / 8), f"${r} is lost"
        assert done.registers[29][0] == 29
        assert done.integer_registers[30, 0] == stack
        return done.local_memory.view(self.memory.dtype)


@pytest.mark.parametrize("precision", ["f64", "f32"])
@pytest.mark.parametrize("extent", [8, 3])
@pytest.mark.parametrize(
    ("which", "tile"), [(w, t) for w in ("input", "filter", "output") for t in (2, 4)]
)
def test_transforms(which: str, tile: int, extent: int, precision: str) -> None:
    """Points of one tile are planes of the memory, as in a tile with the channels innermost."""
    name = f"tw_winograd_{which}_{tile}_{precision}"
    nest = Nest(name, rows=2, extent=extent, outer=1)
    work = nest.routine.work
    assert work is not None
    matrix = work.matrix
    rows, side = matrix.shape
    plane = nest.span
    x = nest.places(X_AT)
    points = np.array(
        [[nest.memory[x + plane * (side * i + j)] for j in range(side)] for i in range(side)]
    )
    divisor = transforms(work.points).divisor if which == "output" else 1.0
    points *= divisor
    for i in range(side):
        for j in range(side):
            nest.memory[x + plane * (side * i + j)] = points[i, j]
    expected = np.einsum("ir,jc,rck->ijk", matrix, matrix, points) / divisor
    after = nest.run(plane * rows, (plane, plane * side, plane))
    y = nest.places()
    found = np.array(
        [[after[y + plane * (rows * i + j)] for j in range(rows)] for i in range(rows)]
    )
    assert np.array_equal(found, expected.astype(found.dtype))


@pytest.mark.parametrize("precision", ["f64", "f32"])
@pytest.mark.parametrize(
    ("rows", "new", "old"),
    [
        (4, 64, 32),
        (4, 32, 64),
        (5, 13, 9),
        (5, 9, 13),
        (3, 104, 36),
        (1, 8, 4),
        (6, 40, 0),
        (0, 4, 8),
        (7, 16, 16),
    ],
)
def test_rows_of_another_length(rows: int, new: int, old: int, precision: str) -> None:
    routine = ROUTINES[f"tw_repack_rows_{precision}"]
    dtype = np.dtype(f"f{routine.precision.element_bytes}")
    memory = np.full(65536 // dtype.itemsize, np.nan, dtype)
    tile = np.arange(1, rows * old + 1).reshape(rows, old)
    memory[: rows * old] = tile.ravel()
    expected = np.zeros((rows, new))
    expected[:, : min(new, old)] = tile[:, : min(new, old)]
    run = simulate_core(
        assembled(routine.text(), TABLE),
        entry=routine.name,
        registers={"$16": 0, "$17": rows, "$18": new, "$19": old},
        local_memory=memory,
        trace=False,
    )
    after = run.local_memory.view(dtype)
    assert np.array_equal(after[: rows * new].reshape(rows, new), expected)
    assert np.isnan(after[max(rows * new, rows * old) :]).all()


def test_an_empty_loop_does_nothing() -> None:
    nest = Nest("tw_winograd_filter_2_f64", rows=0, extent=8)
    before = nest.memory.copy()
    assert np.array_equal(nest.run(1, (1, 1, 1))[:64], before[:64])


@pytest.mark.parametrize("table", SHIPPED_TABLES)
def test_every_form_is_what_its_routine_takes(table: str) -> None:
    for name, found in NESTS.shipped[table].routines.items():
        assert [fit.worst_error for fit in found.values()] == [0, 0], name


@pytest.mark.parametrize("table", SHIPPED_TABLES)
@pytest.mark.parametrize("name", NAMES)
def test_nests_that_were_not_sampled_are_priced_at_what_they_take(name: str, table: str) -> None:
    routine = ROUTINES[name]
    found = NESTS.timing(table, routine)
    for mode in MODES:
        for counts in NOT_SAMPLED:
            terms = nest_terms(routine, mode, sampled_rows(mode, counts))
            priced = float(found[mode].cycles(terms))
            assert priced == NESTS.cycles(table, routine, mode, counts), counts


@pytest.mark.parametrize("table", SHIPPED_TABLES)
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_changed_rows_that_were_not_sampled_are_priced_at_what_they_take(
    precision: str, table: str
) -> None:
    routine = ROUTINES[f"tw_repack_rows_{precision}"]
    timing = NESTS.timing(table, routine)
    for mode in MODES:
        for rows, new, old in product((0, 1, 2, 3, 9), (0, 1, 2, 3, 11, 25), (0, 1, 2, 4, 17, 40)):
            if new == old:
                continue
            terms = rows_terms(new > old, rows, max(new, old), min(new, old))
            priced = float(timing[mode].cycles(terms))
            exact = NESTS.cycles(table, routine, mode, (rows, new, old))
            assert priced == exact, (rows, new, old)


def test_an_item_is_a_vector_or_an_element() -> None:
    assert [item_elements(mode) for mode in MODES] == [load_table(TABLE).register_files[0].lanes, 1]
