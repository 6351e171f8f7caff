"""The loops of a call on buffers reach the elements that its operands name, in the same order."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.common.expr import Const, Expr, Var, evaluate
from tilewright.cost.nests import nest_dims
from tilewright.ir.nodes import Call, Range, View
from tilewright.ir.primitives import Map, MatrixProduct, Windows

Places = list[tuple[int, ...]]


def view(name: str, shape: dict[str, tuple[int, int]], order: str, step: int = 1) -> View:
    """A buffer with room for (extent, room) of each axis, of which the first elements are used."""
    return View(
        name,
        Const(0),
        tuple(Const(shape[a][1]) for a in order),
        tuple(Range(Const(0), Const(shape[a][0]), Const(step)) for a in order),
        order,
    )


def places_of(call: Call) -> Places:
    """Elements of each operand that the loops of a call reach, one iteration after the other."""
    dims = {name: evaluate(e, {}) for name, e in nest_dims(call).items()}
    count = dims["loops"] - 1
    found = []
    for at in product(*(range(dims[f"loop_{n}"]) for n in reversed(range(count)))):
        numbers = dict(zip(reversed(range(count)), at, strict=True))
        found.append(
            tuple(
                sum(i * (dims[f"step_{n}_{operand}"] - 1) for n, i in numbers.items())
                for operand in range(len(call.operands))
            )
        )
    return found


def place(own: View, index: dict[str, int]) -> int:
    """The element of a view at an index of its axes; axes that it has not it is the same along."""
    found = 0
    for role, room, r in zip(own.roles, own.shape, own.ranges, strict=True):
        found = found * evaluate(room, {}) + index[role] * evaluate(r.step, {})
    return found


@st.composite
def maps(draw: st.DrawFn) -> Call:
    """Up to three axes, in any order in each of two operands, of which one may lack some."""
    axes = "abc"[: draw(st.integers(1, 3))]
    shape = {a: (n := draw(st.integers(1, 3)), 2 * n + draw(st.integers(0, 2))) for a in axes}
    kept = "".join(a for a in draw(st.permutations(axes)) if draw(st.integers(0, 3)))
    y, x = "".join(draw(st.permutations(axes))), kept or axes
    return Call(Map("x0"), (view("y", shape, y), view("x", shape, x, draw(st.integers(1, 2)))))


@given(maps())
@examples(100)
def test_a_map_reads_beside_each_result_the_element_of_its_index(call: Call) -> None:
    y, x = call.operands
    assert isinstance(y, View)
    assert isinstance(x, View)
    extents = {a: evaluate(r.extent, {}) for a, r in zip(y.roles, y.ranges, strict=True)}
    wanted = [
        (place(y, index), place(x, index))
        for at in product(*(range(extents[a]) for a in y.roles))
        for index in [dict(zip(y.roles, at, strict=True))]
    ]
    assert places_of(call) == wanted
    dims = nest_dims(call)
    assert prod(
        evaluate(dims[f"loop_{n}"], {}) for n in range(len(extents)) if f"loop_{n}" in dims
    ) == len(wanted)


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 3), (3, 1), (2, 3)])
@pytest.mark.parametrize(("stride", "apart"), [(1, (1, 1)), (2, (1, 1)), (2, (2, 3))])
@pytest.mark.parametrize(("result", "pixels"), [("xtg", "rcg"), ("gxt", "grc"), ("txg", "rgc")])
def test_windows_read_each_point_once(rows, cols, stride, apart, result, pixels) -> None:
    """Point (r, c) of tile t is the pixel (r row_step, c col_step + t stride) of a channel g."""
    tiles, channels, room = 4, 2, rows * cols + 1
    windows = Windows(rows, cols, stride, *apart)
    height, width = (rows - 1) * apart[0] + 1, (cols - 1) * apart[1] + (tiles - 1) * stride + 1
    shape = {"x": (room, room), "t": (tiles, tiles), "g": (channels, channels + 1)}
    image = {"r": (height, height), "c": (width, width + 2), "g": (channels, channels)}
    y, x = view("y", shape, result), view("x", image, pixels)
    wanted = []
    for r, c, t, g in product(range(rows), range(cols), range(tiles), range(channels)):
        to = place(y, {"x": r * cols + c, "t": t, "g": g})
        wanted.append((to, place(x, {"r": r * apart[0], "c": c * apart[1] + t * stride, "g": g})))
    assert sorted(places_of(Call(windows, (y, x)))) == sorted(wanted)


def test_calls_without_such_loops_have_no_dimensions() -> None:
    a = view("a", {"m": (2, 2), "n": (3, 3), "k": (4, 4)}, "mn")
    b = view("b", {"m": (2, 2), "n": (3, 3), "k": (4, 4)}, "mk")
    c = view("c", {"m": (2, 2), "n": (3, 3), "k": (4, 4)}, "kn")
    assert nest_dims(Call(MatrixProduct("n"), (a, b, c))) == {}


@pytest.mark.parametrize(("known", "opened"), [(None, []), ({"n"}, ["open_1"]), ({"n", "m"}, [])])
def test_loops_whose_extents_the_code_does_not_know_are_open_but_where_they_run_on(
    known: set[str] | None, opened: list[str]
) -> None:
    """An outer loop of m times is joined to none; one inside, whose outer one follows it, is."""
    n, m = Var("n"), Var("m")
    own = tuple(
        View(name, Const(0), (m, Const(7)), (Range(Const(0), m), Range(Const(0), n)), "ab")
        for name in "yx"
    )
    found = nest_dims(Call(Map("x0"), own), known)
    assert [name for name in found if name.startswith("open")] == opened
    whole = tuple(
        View(name, Const(0), (m, n), (Range(Const(0), m), Range(Const(0), n)), "ab")
        for name in "yx"
    )
    inside = nest_dims(Call(Map("x0"), whole), known and {"m"})
    assert "open_0" not in inside


def test_operands_start_behind_a_whole_vector_by_what_the_code_knows() -> None:
    row, n = Range(Const(0), Const(4)), Var("n")
    starts = (Range(Const(3), Const(2)), Range(Const(1), Const(2)), Range(n, Const(2)))
    own = tuple(View("x", Const(0), (Const(9), Const(4)), (r, row), "ab") for r in starts)
    odd = tuple(View("x", Const(0), (Const(9), Const(5)), (r, row), "ab") for r in starts)
    dims = {k: str(v) for k, v in nest_dims(Call(Map("x0 + x1"), odd), set()).items()}
    assert (dims["start_0"], dims["start_1"]) == (str(15 % 4 + 1), str(5 % 4 + 1))
    assert "start_2" not in dims
    assert {
        evaluate(e, {}) for k, e in nest_dims(Call(Map("x0 + x1"), own[:2])).items() if "start" in k
    } == {1}


def test_an_axis_in_two_dimensions_is_two_loops_for_every_operand() -> None:
    """Two by three indices of y are six of x, which lie apart, and none of z, a row for all."""
    across = Range(Const(0), Const(4))
    two, three, six = (Range(Const(0), Const(n)) for n in (2, 3, 6))
    y = View("y", Const(0), (Const(2), Const(5), Const(4)), (two, three, across), "aab")
    x = View("x", Const(0), (Const(6), Const(7)), (six, across), "ab")
    z = View("z", Const(0), (Const(4),), (across,), "b")
    wanted = [((a // 3) * 20 + (a % 3) * 4 + b, 7 * a + b, b) for a in range(6) for b in range(4)]
    assert places_of(Call(Map("x0 + x1"), (y, x, z))) == wanted
    other = View("x", Const(0), (Const(3), Const(2), Const(4)), (three, two, across), "aab")
    whole = View("w", Const(0), (Const(2), Const(3), Const(1)), (two, three, two), "aaa")
    assert nest_dims(Call(Map("x0"), (y, replace(other, roles="aba")))) != {}
    assert nest_dims(Call(Map("x0"), (y, replace(whole, roles="aaa")))) == {}


@pytest.mark.parametrize(
    ("extent", "turns", "opened"),
    [
        (Var("n"), {"i": Const(3)}, 1),
        (Var("n") + Var("i"), {"i": Const(3)}, 2),
        (Var("n") + Var("i"), {"i": Const(1)}, 1),
        (Var("n") + Var("rid"), {"i": Const(3)}, 2),
        (Var("n"), {}, 2),
    ],
)
def test_an_extent_that_is_the_same_in_the_first_and_the_last_turn_is_known(
    extent: Expr, turns: dict[str, Expr], opened: int
) -> None:
    """Of cores each may have its own."""
    own = tuple(View(name, Const(0), (Const(9),), (Range(Const(0), extent),), "a") for name in "yx")
    dims = nest_dims(Call(Map("x0"), own), set(), turns)
    assert evaluate(dims["open_0"], {"n": 4}) == opened
