"""Intervals of expressions: as tight as the operations allow, and open where nothing is known."""

from __future__ import annotations

from itertools import product

import pytest

from tilewright.common.expr import BinaryExpr, Var, evaluate
from tilewright.common.expr_parser import parse_expr
from tilewright.common.intervals import UNBOUNDED, interval

BOUNDS = {"i": (0, 6), "j": (-3, 4)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i * 8 + 3", (3, 51)),
        ("i - j", (-4, 9)),
        ("j * j", (-12, 16)),
        ("min(i, 3)", (0, 3)),
        ("ceil_div(j, 2)", (-1, 2)),
        ("j // 2", (-2, 2)),
        ("(i + 8) % 32", (8, 14)),
        ("j % 4", (0, 3)),
        ("i % (i + 7)", (0, 6)),
        ("i % (i + 2)", (0, 7)),
        ("i % j", UNBOUNDED),
        ("j // i", UNBOUNDED),
        ("j % i", UNBOUNDED),
        ("i < 7", (1, 1)),
        ("i == j", (0, 1)),
        ("i == 9", (0, 0)),
        ("i < 3 and j == 2", (0, 1)),
        ("i < 7 and j < 5", (1, 1)),
        ("i + 1 and j", (0, 1)),
        ("j and i + 1", (0, 1)),
        ("i + 1 and i", (0, 1)),
        ("i and i + 1", (0, 1)),
        ("6 < i and j", (0, 0)),
        ("j and 6 < i", (0, 0)),
        ("i < 6", (0, 1)),
        ("6 < i", (0, 0)),
        ("5 < i", (0, 1)),
        ("i <= 6", (1, 1)),
        ("i <= 5", (0, 1)),
        ("7 <= i", (0, 0)),
        ("6 <= i", (0, 1)),
        ("7 == i", (0, 0)),
        ("i == 7", (0, 0)),
        ("i == 6", (0, 1)),
        ("6 == i", (0, 1)),
        ("3 == 3", (1, 1)),
        ("3 != 3", (0, 0)),
        ("i != 9", (1, 1)),
        ("i != 6", (0, 1)),
        ("max(i, 3)", (3, 6)),
        ("(i + 8) % 8", (0, 6)),
        ("(i + 8) % 7", (0, 6)),
        ("i % 7", (0, 6)),
        ("i % 6", (0, 5)),
        ("ceil_div(i, 4)", (0, 2)),
        ("i // j", UNBOUNDED),
        ("tile", UNBOUNDED),
    ],
)
def test_interval(text, expected):
    assert interval(parse_expr(text), BOUNDS) == expected


def test_symbols_without_bounds_take_any_value_of_63_bits():
    assert interval(parse_expr("tile"), {}) == (-(2**62), 2**62)
    assert interval(parse_expr("tile * 2 - tile"), {}) == (-3 * 2**62, 3 * 2**62)


SIDES = [(-3, -1), (-2, 2), (0, 0), (0, 3), (1, 1), (1, 4), (2, 2), (3, 3), (3, 5), (6, 7)]


@pytest.mark.parametrize(
    "op", ["+", "-", "*", "min", "max", "<", "<=", "==", "!=", "//", "ceil_div", "%"]
)
def test_of_symbols_that_differ_it_is_the_smallest_and_the_largest_value(op):
    """But for remainders, which may be all where the dividend reaches the next multiple."""
    e = BinaryExpr(op, Var("x"), Var("y"))
    for a, b in product(SIDES, SIDES):
        if op in ("//", "ceil_div", "%") and b[0] < 1:
            continue
        values = [
            int(evaluate(e, {"x": x, "y": y}))
            for x in range(a[0], a[1] + 1)
            for y in range(b[0], b[1] + 1)
        ]
        expected = min(values), max(values)
        kept = a[0] >= 0 and a[1] < b[0]
        once = b[0] == b[1] and a[0] // b[0] == a[1] // b[0] if b[0] else False
        if op == "%" and not (kept or once):
            expected = 0, b[1] - 1
        assert interval(e, {"x": a, "y": b}) == expected, (a, b)
