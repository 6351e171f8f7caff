"""Expressions within bounds, folded."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.expr import BinaryExpr, Const, Expr, Var, evaluate
from tilewright.common.expr_parser import parse_expr
from tilewright.passes.simplify import fold

BOUNDS = {"x": (0, 3), "y": (-2, 2)}
expressions: st.SearchStrategy[Expr] = st.recursive(
    st.sampled_from([Var("x"), Var("y")]) | st.integers(-4, 4).map(Const),
    lambda part: st.builds(BinaryExpr, st.sampled_from(["+", "-", "*", "min", "max"]), part, part),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("min(x, 3)", "x"),
        ("min(3, x)", "x"),
        ("max(x, 0)", "x"),
        ("max(0, x)", "x"),
        ("min(x, 4 + y)", "min(x, 4 + y)"),
        ("min(x, 5 + y)", "x"),
        ("min(5 + y, x)", "x"),
        ("max(x, 5 + y)", "5 + y"),
        ("max(5 + y, x)", "5 + y"),
        ("min(min(x, y), y)", "min(x, y)"),
        ("x * 0 + y // 3 * 0 + 7", "7"),
    ],
)
def test_a_min_or_max_is_decided_where_one_side_never_counts(text: str, folded: str) -> None:
    assert fold(parse_expr(text), BOUNDS) == parse_expr(folded)


@given(expressions)
def test_what_is_folded_has_the_same_values(e: Expr) -> None:
    folded = fold(e, BOUNDS)
    for x, y in product(range(4), range(-2, 3)):
        assert evaluate(folded, {"x": x, "y": y}) == evaluate(e, {"x": x, "y": y})
