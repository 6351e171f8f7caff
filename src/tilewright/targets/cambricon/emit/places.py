"""Places of operands in few scalar statements.

In: integer expressions over loop variables. Out: equal expressions that add constants last, so that
places a constant apart share the rest; and, for a loop, the parts of places that one statement per
turn can advance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.common.expr import BinaryExpr, Const, Expr, Var, binary, constant_apart, free_vars


def short(op: str, a: Expr, b: Expr) -> Expr:
    """`a op b` in few statements, few of which change in a loop: constants are added last, and
    multiples of a modulus dropped.
    """
    (a_part, a_more), (b_part, b_more) = constant_apart(a), constant_apart(b)
    match op, b:
        case "+", _:
            return added(binary("+", a_part, b_part), a_more + b_more)
        case "-", _:
            return added(binary("-", a_part, b_part), a_more - b_more)
        case "*", Const(factor):
            match a_part:
                case BinaryExpr("*", x, Const(inner)):
                    a_part, scaled = x, inner * factor
                case _:
                    scaled = factor
            return added(binary("*", a_part, scaled), a_more * factor)
        case "*", _ if isinstance(a, Const):
            return short("*", b, a)
        case "%", Const(modulus):
            return binary("%", _residue(a, modulus), modulus)
        case _:
            return binary(op, a, b)


def added(e: Expr, constant: int) -> Expr:
    """The sum, written as a difference if the constant is negative."""
    return binary("+", e, constant) if constant >= 0 else binary("-", e, -constant)


def _residue(e: Expr, modulus: int) -> Expr:
    """An expression with the same remainder, nonnegative if `e` is."""
    match e:
        case Const(value):
            return Const(value % modulus)
        case BinaryExpr("+", a, b):
            return short("+", _residue(a, modulus), _residue(b, modulus))
        case BinaryExpr("-", a, Const(value)):
            return short("+", _residue(a, modulus), Const(-value % modulus))
        case BinaryExpr("*", a, Const(value)):
            return short("*", _residue(a, modulus), Const(value % modulus))
        case _:
            return e


def moved_places(places: Sequence[Expr], variable: str) -> Iterator[tuple[Expr, int | Expr]]:
    """Parts of places that take several statements per turn of a loop but could take one, with
    their movement; one for all parts that differ by a constant.
    """
    found = dict[Expr, tuple[Expr, int | Expr]]()
    todo = [*places]
    for e in todo:
        if not isinstance(e, BinaryExpr) or variable not in free_vars(e):
            continue
        move: int | Expr | None = _stride(e, variable)
        if move is None:
            move = _sum_of_two(e, variable)
        if move is None:
            todo += (e.a, e.b)
        elif e.op == "%" or Var(variable) not in (e.a, e.b):
            found.setdefault(constant_apart(e)[0], (e, move))
    yield from found.values()


def _stride(e: Expr, variable: str) -> int | None:
    """Distance that a place moves per turn; None if it varies."""
    if variable not in free_vars(e):
        return 0
    match e:
        case Var():
            return 1
        case BinaryExpr("+" | "-" as op, a, b):
            one, other = _stride(a, variable), _stride(b, variable)
            if one is None or other is None:
                return None
            return one + other if op == "+" else one - other
        case BinaryExpr("*", a, Const(factor)):
            own = _stride(a, variable)
            return None if own is None else own * factor
        case _:
            return None


def _sum_of_two(e: Expr, variable: str) -> Expr | None:
    """The sum of a place in two successive turns if it is constant, as for one that alternates
    between two slots; else None.
    """
    if variable not in free_vars(e):
        return short("*", e, Const(2))
    match e:
        case BinaryExpr("%", a, Const(2)):
            return Const(1) if (_stride(a, variable) or 0) % 2 else None
        case BinaryExpr("+" | "-" | "*" as op, a, b):
            one = _sum_of_two(a, variable)
            other = b if op == "*" else _sum_of_two(b, variable)
            if one is None or other is None or (op == "*" and not isinstance(b, Const)):
                return None
            return short(op, one, other)
        case _:
            return None
