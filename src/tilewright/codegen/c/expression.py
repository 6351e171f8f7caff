"""Integer expressions as C text: int64 arithmetic with the semantics of `common.expr`.

In: an expression whose symbols are loop variables or mesh positions with known bounds. Out: C text
of type long. Python's floor division is C's division where both operands are known not to be
negative; elsewhere a helper of `tw_primitives.h` is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from tilewright.common.errors import ProgramError
from tilewright.common.expr import BinaryExpr, Const, Expr, Var, free_vars
from tilewright.common.intervals import Interval, interval

_PRECEDENCE = {"&&": 1, "==": 2, "!=": 2, "<": 3, "<=": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
_ATOM = 9


@dataclass(frozen=True)
class Scope:
    """The symbols in scope: their C identifiers and value bounds."""

    identifiers: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, Interval] = field(default_factory=dict)

    def with_symbol(self, name: str, identifier: str, bounds: Interval) -> Scope:
        """This scope and one more symbol, which shadows an outer one of its name."""
        return replace(
            self,
            identifiers={**self.identifiers, name: identifier},
            bounds={**self.bounds, name: bounds},
        )


def bounds_of(e: Expr, scope: Scope) -> Interval:
    """An interval that contains every value of `e`. Raises ProgramError for a symbol not in scope.

    >>> bounds_of(Var("i") * 8 + 3, Scope({"i": "i"}, {"i": (0, 4)}))
    (3, 35)
    """
    for name in sorted(free_vars(e) - scope.bounds.keys()):
        _require_bounds(name, scope)
    return interval(e, scope.bounds)


def _require_bounds(name: str, scope: Scope) -> str:
    if name not in scope.bounds:
        raise ProgramError(
            f"symbol {name!r} has no value where code is generated",
            fix="instantiate the program's parameters first",
        )
    return name


def c_expression(e: Expr, scope: Scope) -> str:
    """`e` as C.

    >>> n = Scope({"i": "i"}, {"i": (0, 4)})
    >>> c_expression((Var("i") + 1) // 2 * 16, n)
    '(i + 1) / 2 * 16'
    >>> c_expression((Var("i") - 1) % 2, n)
    'tw_modulo(i - 1, 2)'
    """
    return _text(e, scope)[0]


def _text(e: Expr, scope: Scope) -> tuple[str, int]:
    """C text and the precedence of its outermost operator."""
    match e:
        case Const(value):
            return str(value), _ATOM if value >= 0 else 0
        case Var(name):
            return scope.identifiers[_require_bounds(name, scope)], _ATOM
        case BinaryExpr(op, a, b):
            return _binary(op, a, b, scope)
        case _:
            assert_never(e)


def _binary(op: str, a: Expr, b: Expr, scope: Scope) -> tuple[str, int]:
    if op in ("//", "%", "ceil_div") and not _natural(a, b, scope):
        names = {"//": "tw_floor_divide", "%": "tw_modulo", "ceil_div": "tw_ceiling_divide"}
        return _call(names[op], a, b, scope)
    match op:
        case "min" | "max":
            return _call(f"tw_{op}imum", a, b, scope)
        case "ceil_div" if isinstance(b, Const):
            return _infix("/", a + (b - 1), b, scope)
        case "ceil_div":
            return _call("tw_ceiling_divide", a, b, scope)
        case _:
            return _infix({"//": "/", "and": "&&"}.get(op, op), a, b, scope)


def _natural(a: Expr, b: Expr, scope: Scope) -> bool:
    return bounds_of(a, scope)[0] >= 0 and bounds_of(b, scope)[0] > 0


def _call(function: str, a: Expr, b: Expr, scope: Scope) -> tuple[str, int]:
    return f"{function}({c_expression(a, scope)}, {c_expression(b, scope)})", _ATOM


def _infix(op: str, a: Expr, b: Expr, scope: Scope) -> tuple[str, int]:
    level = _PRECEDENCE[op]
    left, left_level = _text(a, scope)
    right, right_level = _text(b, scope)
    if left_level < level or (level in (2, 3) and left_level in (2, 3)):
        left = f"({left})"
    if (
        right_level < level
        or (right_level == level and op != "+")
        or (level == 3 and right_level == 2)
    ):
        right = f"({right})"
    return f"{left} {op} {right}", level
