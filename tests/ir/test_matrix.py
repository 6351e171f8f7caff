"""Which views are matrices, and where their elements lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Var, evaluate, expr
from tilewright.ir.matrix import Matrix, Runs, as_view, matrix_form
from tilewright.ir.nodes import Call, Range, View, at
from tilewright.ir.parser import parse

K, M, INDEX = Var("k"), Var("m"), Var("i")


def _view(shape: tuple[object, ...], ranges: tuple[Range, ...], roles: str) -> View:
    return View("b", Const(0), tuple(expr(e) for e in shape), ranges, roles)


def _whole(shape: tuple[object, ...], roles: str) -> View:
    extents = tuple(expr(e) for e in shape)
    return View("b", Const(0), extents, tuple(at(0, e) for e in extents), roles)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (_whole((K, M), "km"), Matrix(Const(0), M, "column")),
        (_whole((M, K), "mk"), Matrix(Const(0), K, "row")),
        (_whole((3, 3, K, M), "kkkm"), Matrix(Const(0), M, "column")),
        (_whole((M, 1, 8), "m.k"), Matrix(Const(0), Const(8), "row")),
        (_whole((1, K), "mk"), Matrix(Const(0), K, "row")),
        (_whole((M, 1), "mk"), Matrix(Const(0), Const(1), "row")),
        (_whole((K,), "k"), Matrix(Const(0), K, "row")),
        (_whole((M,), "m"), Matrix(Const(0), M, "column")),
        (_whole((1, 1), "mk"), Matrix(Const(0), Const(1), "row")),
        (
            _view((3, K, M), (at(INDEX, 1), at(0, K), at(0, M)), ".km"),
            Matrix(INDEX * (K * M), M, "column"),
        ),
        (_view((K, M), (at(INDEX, 4), at(8, 16)), "km"), Matrix(INDEX * M + 8, M, "column")),
        (_view((K, 3, M), (at(0, K), at(1, 1), at(0, M)), "k.m"), Matrix(M, 3 * M, "column")),
        (_view((M, 8), (at(0, M), at(2, 1)), "mk"), Matrix(Const(2), Const(8), "row")),
        (_view((8, K), (at(2, 1), at(0, K)), "km"), Matrix(2 * K, K, "column")),
        (_view((M, K), (at(1, 4, 2), at(0, K)), "mk"), Matrix(K, K * 2, "row")),
    ],
)
def test_matrix(view: View, expected: Matrix) -> None:
    form = matrix_form(view, "m", "k")
    env = {"k": 5, "m": 7, "i": 2}
    assert form.order == expected.order
    assert evaluate(form.offset_elements, env) == evaluate(expected.offset_elements, env)
    assert form.leading_dimension == expected.leading_dimension


def test_a_tile_in_place_is_a_view_of_its_tensor() -> None:
    program = parse("""\
def p(m):
    x: tensor("f32", "input", rows=m, cols=20)
    gemm(x[at(2, 4), at(3, 8)]("mn"), x[at(0, 4), at(0, 5)]("mk"), x[at(0, 5), at(0, 8)]("kn"))
""")
    (call,) = program.body
    assert isinstance(call, Call)
    view = as_view(call.operands[0], program)
    assert matrix_form(view, "m", "n") == Matrix(Const(43), Const(20), "row")
    assert as_view(view, program) is view


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (
            _view((K, 3, 8), (at(0, K), at(0, 2), at(0, 8)), "mmk"),
            'b[0](at(0, k), at(0, 2), at(0, 8), shape=(k, 3, 8), roles="mmk") is not a matrix: '
            "dimension 1: at(0, 2) does not cover its 3 elements; "
            "only the outermost dimension of role 'm' may be covered in part",
        ),
        (
            _whole((4, K, 8), "mkm"),
            'b[0](shape=(4, k, 8), roles="mkm") is not a matrix: '
            "dimension 1: it lies between dimensions 0 and 2 of role 'm'; "
            "make the dimensions of role 'm' adjacent",
        ),
        (
            _view((4, 8), (at(0, 4), at(0, 4, 2)), "mk"),
            'b[0](at(0, 4), at(0, 4, 2), shape=(4, 8), roles="mk") is not a matrix: '
            "dimension 1: its step is 2; pack the elements with step 1 first",
        ),
        (
            _view((8, 4, 8), (at(0, 4, 2), at(0, 4), at(0, 8)), "mmk"),
            'b[0](at(0, 4, 2), at(0, 4), at(0, 8), shape=(8, 4, 8), roles="mmk") is not a matrix: '
            "dimension 0: its step is 2; pack the elements with step 1 first",
        ),
        (
            _whole((4, 2, 8), "m.k"),
            'b[0](shape=(4, 2, 8), roles="m.k") is not a matrix: '
            "dimension 1: it has role '.' and extent 2; give it role 'm' or 'k', or extent 1",
        ),
        (
            _view((4, 8, 3), (at(0, 4), at(0, 8), at(INDEX, 1)), "mk."),
            'b[0](at(0, 4), at(0, 8), i, shape=(4, 8, 3), roles="mk.") is not a matrix: '
            "dimension 2: one index of its 3 is taken, which gives role 'k' a stride; "
            "make the dimensions of role 'k' the innermost of the packed tile",
        ),
        (
            _view((4, 8), (at(0, 4),), "mk"),
            'view b[0](at(0, 4), shape=(4, 8), roles="mk") has 2 dimensions, 1 ranges and 2 roles; '
            "give each dimension one range and one role",
        ),
    ],
)
def test_not_a_matrix(view: View, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        matrix_form(view, "m", "k")
    assert str(caught.value) == message


def test_pixels_of_several_rows_come_in_runs() -> None:
    view = _view((M, 9, 8), (at(1, 4, 2), at(INDEX, 7), at(0, 8)), "mmk")
    expected = Matrix(Const(72) + INDEX * 8, Const(8), "row", Runs(Const(7), Const(144)))
    assert matrix_form(view, "m", "k", runs="m") == expected
    with pytest.raises(ProgramError):
        matrix_form(view, "m", "k", runs="k")


def test_images_of_one_column_of_several_come_in_runs() -> None:
    view = _view((M, 3, 2, 8), (at(0, 4), at(1, 1), at(0, 2), at(0, 8)), "mmmk")
    expected = Matrix(Const(16), Const(8), "row", Runs(Const(2), Const(48)))
    assert matrix_form(view, "m", "k", runs="m") == expected


@st.composite
def _views(draw: st.DrawFn) -> View:
    shape = draw(st.lists(st.integers(1, 4), max_size=4))
    starts = [draw(st.integers(0, n - 1)) for n in shape]
    ends = [draw(st.integers(s + 1, n)) for s, n in zip(starts, shape, strict=True)]
    whole = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    ranges = tuple(
        at(0, n) if all_of_it else at(s, e - s)
        for n, s, e, all_of_it in zip(shape, starts, ends, whole, strict=True)
    )
    return _view(tuple(shape), ranges, "".join(draw(st.sampled_from("mk")) for _ in shape))


@given(_views())
def test_a_view_is_a_matrix_exactly_when_its_elements_lie_like_one(view: View) -> None:
    places, (i, j) = _places(view)
    leading = np.arange(1, 4**4 + 1)[:, None, None]
    is_matrix = any(
        (places == places[0, 0] + outer * leading + inner).all(axis=(1, 2)).any()
        for outer, inner in ((i, j), (j, i))
    )
    try:
        form = matrix_form(view, "m", "k")
    except ProgramError:
        assert not is_matrix
        return
    outer, inner = (i, j) if form.order == "row" else (j, i)
    base, stride = evaluate(form.offset_elements, {}), evaluate(form.leading_dimension, {})
    assert (places == base + outer * stride + inner).all()
    assert stride >= inner.max() + 1


@given(_views())
def test_runs_are_where_the_elements_are(view: View) -> None:
    try:
        form = matrix_form(view, "m", "k", runs="m")
    except ProgramError:
        return
    found = form.runs or Runs(Const(1), form.leading_dimension)
    if form.runs is not None:
        assert form.order == "row"
        with pytest.raises(ProgramError):
            matrix_form(view, "m", "k")
    places, (i, j) = _places(view)
    outer, inner = (i, j) if form.order == "row" else (j, i)
    run, distance = (evaluate(e, {}) for e in (found.length, found.distance_elements))
    base, stride = evaluate(form.offset_elements, {}), evaluate(form.leading_dimension, {})
    assert (places == base + outer // run * distance + outer % run * stride + inner).all()


def _places(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Where the elements of a view with roles m and k lie, and their row and column numbers."""
    shape = tuple(evaluate(e, {}) for e in view.shape)
    box = tuple(slice(evaluate(r.start, {}), evaluate(r.start + r.extent, {})) for r in view.ranges)
    places = np.arange(int(np.prod(shape))).reshape(shape)[box]
    order = [d for role in "mk" for d, letter in enumerate(view.roles) if letter == role]
    rows = int(np.prod([places.shape[d] for d, c in enumerate(view.roles) if c == "m"]))
    places = places.transpose(order).reshape(rows, -1)
    return places, np.indices(places.shape)
