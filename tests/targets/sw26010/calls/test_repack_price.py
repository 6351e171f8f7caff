"""Prices of re-packing, against the emitted routine on every core of the mesh."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
import pytest

from tilewright.common.expr import Const, Expr, Var, evaluate, maximum, minimum
from tilewright.cost.calls import PricedCall, call_cycles
from tilewright.cost.prices import call_costs
from tilewright.cost.steps import first_core
from tilewright.cost.timing import by_cores, call_dims
from tilewright.ir.nodes import Call, Range, View
from tilewright.ir.primitives import Repack
from tilewright.machine import load_machine
from tilewright.targets.sw26010.elementwise.routines import routine_of
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES
from tilewright.targets.sw26010.timing.nests import NESTS

MACHINES = ("sw26010", "sw26010_cg", "sw26010_measured")
ROUTINE = routine_of(Repack(), "f64")
CASES = [
    ((16, 32), (128, 200)),  # one core is cut along the columns
    ((16, 32), (100, 256)),  # along the rows, and one has none
    ((16, 32), (83, 144)),
    ((12, 7), (77, 50)),  # element by element
    ((4, 11), (5, 88)),  # most cores have nothing
    ((1, 64), (8, 500)),  # a row that stays where it is
    ((2, 9, 12), (61, 28)),  # an axis that no core divides
]


def view(shape: tuple[Expr, ...]) -> View:
    letters = "abcdef"[: len(shape)]
    return View("tile", Const(0), shape, tuple(Range(Const(0), e) for e in shape), letters)


def extents(tile: tuple[int, ...], tensor: tuple[int, int]) -> tuple[Expr, ...]:
    """A core's part of a tile: rows by the rows of the mesh, columns by its columns."""
    free = len(tile) - 2
    ends = zip(tile[free:], tensor, ("rid", "cid"), strict=True)
    cut = (maximum(0, minimum(t, Const(n) - Var(core) * t)) for t, n, core in ends)
    return (*map(Const, tile[:free]), *cut)


@cache
def routine_cycles(table: str, rows: int, new: int, old: int) -> int:
    assert ROUTINE is not None
    by_vectors = new % VECTOR_LANES == old % VECTOR_LANES == 0
    size, mode = (VECTOR_LANES, "vectors") if by_vectors else (1, "elements")
    return NESTS.cycles(table, ROUTINE, mode, (rows, new // size, old // size))


def core_cycles(table: str, new: list[int], old: list[int]) -> int:
    """The calls that a core makes: one for each axis that changes, the inner ones first."""
    now, cycles = list(old), 0
    for d in reversed(range(len(now))):
        if now[d] != new[d]:
            inner = prod(now[d + 1 :])
            cycles += routine_cycles(table, prod(now[:d]), new[d] * inner, now[d] * inner)
            now[d] = new[d]
    return cycles


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("grows", [True, False], ids=["grows", "is cut"])
def test_the_price_is_what_the_slowest_core_takes(name: str, grows: bool) -> None:
    machine = load_machine(name)
    env, table = first_core(machine), machine.core.instruction_table
    assert table is not None
    for tile, tensor in CASES:
        real = extents(tile, tensor)
        views = (view(tuple(map(Const, tile))), view(real))
        call = Call(Repack(), views if grows else views[::-1])
        dims = {key: evaluate(e, env) for key, e in call_dims(call).items()}
        priced = call_cycles(machine, PricedCall(Repack(), dims), call_costs(machine))
        exact = 0
        for core in range(machine.cores):
            place = dict(zip(("rid", "cid"), divmod(core, machine.mesh.columns), strict=True))
            own = [evaluate(e, env | place) for e in real]
            shapes = (list(tile), own) if grows else (own, list(tile))
            exact = max(exact, core_cycles(table, *shapes))
        assert priced == pytest.approx(exact, rel=0.03), (tile, tensor)


@pytest.mark.parametrize("kind", ["grows", "cut"])
def test_many_tiles_side_by_side_cost_what_each_does_alone(kind: str) -> None:
    machine, random, count = load_machine("sw26010"), np.random.default_rng(0), 300
    whole = random.integers(2, 24, count)
    most = random.integers(0, whole)
    dims = {
        "elements": 4 * whole,
        "axis_0": np.full(count, 4),
        "axis_1": whole,
        f"{kind}_1": 1 + most,
        "least_1": random.integers(1, 2 + most),
        "some_whole_1": random.integers(1, 3, count),
    }
    costs = call_costs(machine)
    every = call_cycles(machine, PricedCall(Repack(), dims), costs)
    alone = ({name: int(column[i]) for name, column in dims.items()} for i in range(count))
    each = [call_cycles(machine, PricedCall(Repack(), own), costs) for own in alone]
    assert isinstance(every, np.ndarray)
    assert every.tolist() == each


def test_cores_are_told_apart_by_what_they_have_of_a_tile() -> None:
    """Of all cores, of the first, of those that have data, of others: one has four rows, the
    largest other tile has two, and some have none.
    """
    found = by_cores({"axis_0": 4, "grows_0": 3, "least_0": 1, "some_whole_0": 2, "axis_1": 8})
    assert {name: np.ravel(value).tolist() for name, value in found.items()} == {
        "axis_0": [4],
        "grows_0": [3, 5, 3, 1],
        "least_0": [1, 5, 3, 1],
        "some_whole_0": [2, 2, 2, 1],
        "axis_1": [8],
    }
