"""Fold the expressions that the ranges of the loop variables decide.

In: an instantiated program. A `min`, `max` or condition whose sides never change order is replaced
by its value, so a schedule whose tiles divide its extents carries no trace of boundary handling.

before:  for i in range(4): get(a[at(i * 16, min(16, 64 - i * 16))] ...)
after:   for i in range(4): get(a[at(i * 16, 16)] ...)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.expr import BinaryExpr, Const, Expr, binary
from tilewright.common.intervals import Interval, intervals_within
from tilewright.ir.nodes import For, If, Program, Stmt
from tilewright.ir.visit import map_stmt, simplify_body

Bounds = Mapping[str, Interval]


@dataclass(frozen=True)
class Simplify:
    """Folds expressions that the ranges of loop variables and of `mesh` coordinates decide."""

    name: ClassVar[str] = "simplify"
    mesh: tuple[int, int]

    def apply(self, program: Program) -> Program:
        """The program with every decided expression folded."""
        bounds = {"rid": (0, self.mesh[0] - 1), "cid": (0, self.mesh[1] - 1)}
        return replace(program, body=simplify_body(_body(program.body, bounds)))


def _body(body: tuple[Stmt, ...], bounds: Bounds) -> tuple[Stmt, ...]:
    folds = Folds(bounds)
    return tuple(_stmt(s, bounds, folds) for s in body)


def _stmt(stmt: Stmt, bounds: Bounds, folds: Folds) -> Stmt:
    match stmt:
        case For(var, extent, body):
            extent = folds.fold(extent)
            inner = {**bounds, var: (0, max(0, folds.interval(extent)[1] - 1))}
            return replace(stmt, extent=extent, body=_body(body, inner))
        case If(condition, then, orelse):
            return If(folds.fold(condition), _body(then, bounds), _body(orelse, bounds))
        case _:
            return map_stmt(stmt, folds.fold)


def fold(e: Expr, bounds: Bounds) -> Expr:
    """`e` with every part of only one possible value, and every decided min or max, replaced."""
    return Folds(bounds).fold(e)


class Folds:
    """`fold` under fixed bounds for many expressions; shared parts are folded once."""

    def __init__(self, bounds: Bounds) -> None:
        self.interval = intervals_within(bounds)
        self._known: dict[int, tuple[Expr, Expr]] = {}  # by id; the expression is kept alive

    def fold(self, e: Expr) -> Expr:
        """`e` folded, from the cache if it is known."""
        if not isinstance(e, BinaryExpr):
            return e
        own = self._known.get(id(e))
        if own is None:
            own = self._known[id(e)] = e, self._folded(e)
        return own[1]

    def _folded(self, e: BinaryExpr) -> Expr:
        low, high = self.interval(e)
        if low == high:
            return Const(low)
        a, b = self.fold(e.a), self.fold(e.b)
        if e.op in ("min", "max"):
            (a_low, a_high), (b_low, b_high) = self.interval(a), self.interval(b)
            if a_high <= b_low:
                return a if e.op == "min" else b
            if b_high <= a_low:
                return b if e.op == "min" else a
            if b in _parts(e.op, a):
                return a
        if e.op == "<" and _never_beyond(b, a):
            return Const(0)
        return binary(e.op, a, b)


def _parts(op: str, e: Expr) -> tuple[Expr, ...]:
    """The operands of `e` if its operation is `op`, else none."""
    match e:
        case BinaryExpr(found, a, b) if found == op:
            return a, b
        case _:
            return ()


def _never_beyond(end: Expr, limit: Expr) -> bool:
    """True if `end` is the end of a tile clipped at `limit`: start + min(size, limit - start)."""
    match end:
        case BinaryExpr("+", start, BinaryExpr("min") as size):
            return binary("-", limit, start) in _parts("min", size)
        case _:
            return False
