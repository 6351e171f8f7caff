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

from tilewright.common.expr import Binary, Const, Expr, binary
from tilewright.common.intervals import Interval, interval
from tilewright.ir.nodes import For, If, Program, Stmt
from tilewright.ir.visit import map_stmt, simplify_body

Bounds = Mapping[str, Interval]


@dataclass(frozen=True)
class Simplify:
    """Folds expressions that the ranges of loop variables and of the cores of a `mesh` decide."""

    name: ClassVar[str] = "simplify"
    mesh: tuple[int, int]

    def apply(self, program: Program) -> Program:
        """The program with every decided expression folded."""
        bounds = {"rid": (0, self.mesh[0] - 1), "cid": (0, self.mesh[1] - 1)}
        return replace(program, body=simplify_body(_body(program.body, bounds)))


def _body(body: tuple[Stmt, ...], bounds: Bounds) -> tuple[Stmt, ...]:
    return tuple(_stmt(s, bounds) for s in body)


def _stmt(stmt: Stmt, bounds: Bounds) -> Stmt:
    match stmt:
        case For(var, extent, body):
            extent = fold(extent, bounds)
            inner = {**bounds, var: (0, max(0, interval(extent, bounds)[1] - 1))}
            return replace(stmt, extent=extent, body=_body(body, inner))
        case If(condition, then, orelse):
            return If(fold(condition, bounds), _body(then, bounds), _body(orelse, bounds))
        case _:
            return map_stmt(stmt, lambda e: fold(e, bounds))


def fold(e: Expr, bounds: Bounds) -> Expr:
    """`e` with every part that has one possible value, or a decided min or max, replaced."""
    if not isinstance(e, Binary):
        return e
    low, high = interval(e, bounds)
    if low == high:
        return Const(low)
    a, b = fold(e.a, bounds), fold(e.b, bounds)
    if e.op in ("min", "max"):
        (a_low, a_high), (b_low, b_high) = interval(a, bounds), interval(b, bounds)
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
    """The operands of `e`, a min or max."""
    match e:
        case Binary(found, a, b) if found == op:
            return a, b
        case _:
            return ()


def _never_beyond(end: Expr, limit: Expr) -> bool:
    """True if `end` has the form of a tile clipped at `limit`: start + min(size, limit - start)."""
    match end:
        case Binary("+", start, Binary("min") as size):
            return binary("-", limit, start) in _parts("min", size)
        case _:
            return False
