"""Interval arithmetic: the smallest and largest value that an integer expression may take.

In: an expression and bounds of its symbols. Out: an interval that contains all of its values. It is
not always the smallest, since equal symbols on both sides of an operation count as independent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, assert_never

from tilewright.common.expr import BinaryExpr, Const, Expr, Var

Interval: TypeAlias = tuple[int, int]
"""Smallest and largest value, both included."""

UNBOUNDED: Interval = (-(2**62), 2**62)


def interval(e: Expr, bounds: Mapping[str, Interval]) -> Interval:
    """An interval that contains every value of `e`; symbols without bounds may have any value.

    >>> interval(Var("i") * 8 + 3, {"i": (0, 4)})
    (3, 35)
    """
    return intervals_within(bounds)(e)


def intervals_within(bounds: Mapping[str, Interval]) -> Callable[[Expr], Interval]:
    """`interval` with fixed bounds for many expressions; shared parts are evaluated once."""
    known: dict[int, tuple[Expr, Interval]] = {}  # by id; the expression is kept alive

    def of(e: Expr) -> Interval:
        match e:
            case Const(value):
                return value, value
            case Var(name):
                return bounds.get(name, UNBOUNDED)
            case BinaryExpr(op, a, b):
                own = known.get(id(e))
                if own is None:
                    own = known[id(e)] = e, _combined(op, of(a), of(b))
                return own[1]
            case _:
                assert_never(e)

    return of


def _combined(op: str, a: Interval, b: Interval) -> Interval:
    match op:
        case "+":
            return a[0] + b[0], a[1] + b[1]
        case "-":
            return a[0] - b[1], a[1] - b[0]
        case "*":
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "//" | "ceil_div" | "%":
            return _divided(op, a, b) if b[0] > 0 else UNBOUNDED
        case _:
            return _decided(op, a, b)


def _divided(op: str, a: Interval, b: Interval) -> Interval:
    """The interval of a quotient or remainder by a positive number."""
    if op == "%":
        if b[0] == b[1] and a[0] // b[0] == a[1] // b[0]:
            return a[0] % b[0], a[1] % b[0]
        return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)
    sign = -1 if op == "ceil_div" else 1
    corners = [sign * (sign * x // y) for x in a for y in b]
    return min(corners), max(corners)


def _decided(op: str, a: Interval, b: Interval) -> Interval:
    """The interval of a condition: a single value if it always or never holds."""
    match op:
        case "<":
            always, never = a[1] < b[0], a[0] >= b[1]
        case "<=":
            always, never = a[1] <= b[0], a[0] > b[1]
        case "and":
            always, never = a[0] > 0 and b[0] > 0, a == (0, 0) or b == (0, 0)
        case _:
            equal = a[0] == a[1] == b[0] == b[1]
            apart = a[1] < b[0] or b[1] < a[0]
            always, never = (equal, apart) if op == "==" else (apart, equal)
    return (1, 1) if always else (0, 0) if never else (0, 1)
