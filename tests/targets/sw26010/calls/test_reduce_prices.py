"""Prices of reductions: the routine that their loops take, and its cycles."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tilewright.common.expr import Const, Var, evaluate
from tilewright.cost.calls import PricedCall
from tilewright.cost.nests import starts_of_vectors
from tilewright.cost.prices import call_costs
from tilewright.cost.timing import call_dims
from tilewright.ir.nodes import Call, View, at
from tilewright.ir.primitives import Reduce
from tilewright.machine import load_machine
from tilewright.targets.sw26010.calls.expressions import reduce_loops, routine_of_reduce
from tilewright.targets.sw26010.calls.prices import lie_of, priced_loops
from tilewright.targets.sw26010.elementwise.lie import ELEMENTS, LANES, VECTORS, Lie
from tilewright.targets.sw26010.elementwise.reduce import reduce_routine
from tilewright.targets.sw26010.timing.nests import around
from tilewright.targets.sw26010.timing.reductions import REDUCTIONS, Extents


def view(roles: str, shape: tuple[int, ...], *ranges: tuple[int, int]) -> View:
    taken = ranges or tuple((0, e) for e in shape)
    return View("tile", Const(0), tuple(map(Const, shape)), tuple(at(*r) for r in taken), roles)


def strided(roles: str, shape: tuple[int, ...], *ranges: tuple[int, int, int]) -> View:
    places = tuple(at(start, extent, step=step) for start, extent, step in ranges)
    return View("tile", Const(0), tuple(map(Const, shape)), places, roles)


CALLS = {
    "windows of images": (
        view("rcb", (5, 6, 8)),
        strided("rkckb", (5, 2, 6, 2, 8), (0, 5, 1), (0, 2, 1), (0, 6, 1), (0, 2, 1), (0, 8, 1)),
        (Lie(1, 2, loops=True), VECTORS, (5, 6), Extents(30, 8, 1, 2, 2)),
    ),
    "squares of neighbours": (
        view("ab", (3, 40)),
        view("abk", (3, 40, 1)),
        (Lie(1), VECTORS, (1, 1), Extents(1, 120)),
    ),
    "squares of neighbours, from between vectors": (
        view("ab", (3, 40)),
        view("ab", (3, 44), (0, 3), (1, 40)),
        (Lie(1), LANES, (1, 3), Extents(3, 40)),
    ),
    "taps of windows": (
        view("ab", (2, 28)),
        strided("ab", (2, 57), (0, 2, 1), (0, 28, 2)),
        (Lie(2), LANES, (1, 2), Extents(2, 28)),
    ),
    "rows of odd lengths": (
        view("ab", (2, 27)),
        strided("ab", (2, 57), (0, 2, 1), (0, 27, 2)),
        (Lie(2), ELEMENTS, (1, 2), Extents(2, 27)),
    ),
    "a softmax": (
        view("", ()),
        view("k", (1000,)),
        (Lie(0, along=True), VECTORS, (1, 1), Extents(1, 1, 1, 1, 1000)),
    ),
    "a global average": (
        view("a", (8,)),
        view("ak", (8, 49)),
        (Lie(0, along=True), ELEMENTS, (1, 1), Extents(1, 8, 1, 1, 49)),
    ),
    "an outer axis": (
        view("a", (24,)),
        view("ka", (7, 24)),
        (Lie(1, loops=True), VECTORS, (1, 1), Extents(1, 24, 1, 7)),
    ),
}


@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("name", ["sw26010", "sw26010_measured"])
def test_a_call_is_priced_as_the_rows_that_its_code_runs(case: str, name: str) -> None:
    y, x, (lie, mode, loops, extents) = CALLS[case]
    machine, call = load_machine(name), Call(Reduce("max"), (y, x))
    found = call_dims(call, ()) | starts_of_vectors(call, {})
    dims = {key: evaluate(e, {}) for key, e in found.items()}
    priced = call_costs(machine)[Reduce](machine, PricedCall(call.primitive, dims))
    routine = routine_of_reduce(Reduce("max"), (y, x), "f64")
    assert routine is not None
    assert routine == reduce_routine("max", "x0", lie, "f64")
    table = machine.core.instruction_table
    assert table is not None
    extents = replace(extents, around=around(loops))
    exact = REDUCTIONS.cycles(table, routine, mode, (loops, extents))
    assert priced == exact


def test_a_loop_around_moves_elements_off_the_vectors() -> None:
    tap, width = Var("tap"), Var("width")
    x = View("tile", Const(0), (width * 8,), (at(tap * width, 40),), "a")
    call = Call(Reduce("max"), (view("a", (40,)), x))
    found = starts_of_vectors(call, {"tap": Const(3)})
    widths = {"width": np.array([46, 48, 27])}
    shares = {key: np.broadcast_to(evaluate(e, widths), 3).tolist() for key, e in found.items()}
    assert shares == {"y_starts": [1, 1, 1], "x_starts": [2, 1, 4]}


def test_candidates_that_lie_in_different_ways_have_each_its_routine() -> None:
    machine = load_machine("sw26010")
    price = call_costs(machine)[Reduce]
    each = []
    for case in CALLS.values():
        call = Call(Reduce("max"), case[:2])
        found = call_dims(call, ()) | starts_of_vectors(call, {})
        each.append({key: evaluate(e, {}) for key, e in found.items()})
    names = dict.fromkeys(name for dims in each for name in dims)
    both = {n: np.array([dims.get(n, 1) for dims in each]) for n in names}
    priced = price(machine, PricedCall(Reduce("max"), both))
    single = [price(machine, PricedCall(Reduce("max"), dims)) for dims in each]
    assert priced.tolist() == [float(cycles) for cycles in single]


def test_loops_are_joined_alike_where_they_are_emitted_and_priced() -> None:
    """Of random shapes, orders of axes and steps."""
    rng, refused = random.Random(5), 0
    for _ in range(500):
        views = random_views(rng)
        call = Call(Reduce("sum"), views)
        dims = call_dims(call) | starts_of_vectors(call, {})
        priced = priced_loops({key: evaluate(e, {}) for key, e in dims.items()})
        emitted = reduce_loops(Reduce("sum"), views)
        assert bool(priced.priced) == (emitted is not None)
        if emitted is None:
            refused += 1
            continue
        assert lie_of(int(priced.code)) == emitted.lie
        outside = [loop.extent.value for loop in emitted.outside]
        row = emitted.kept[-1].extent.value if emitted.kept else 1
        counts = [1] * (2 - len(outside)) + [*outside, emitted.innermost.extent.value, row]
        extents = priced.extents
        assert [extents.outer, extents.inner, extents.length, extents.row] == counts
    assert 0 < refused < 50


def random_views(rng: random.Random) -> tuple[View, View]:
    kept = [(letter, rng.choice([1, 2, 3, 4, 8, 12])) for letter in "abc"[: rng.randint(0, 3)]]
    gathered = [("k", rng.choice([1, 2, 3, 4, 7, 9, 16])) for _ in range(rng.randint(0, 3))]
    axes = [*kept, *gathered]
    if rng.random() < 0.5:
        rng.shuffle(axes)
    shape, ranges = [], []
    for letter, extent in axes:
        step = 1 if letter == "k" else rng.choice([1, 1, 1, 2])
        shape.append(extent * step + rng.choice([0, 0, 0, 1, 4]))
        ranges.append((0, extent, step))
    x = strided("".join(letter for letter, _ in axes), tuple(shape), *ranges)
    return view("".join(letter for letter, _ in kept), tuple(n for _, n in kept)), x
