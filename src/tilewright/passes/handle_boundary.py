"""Make tiles that reach beyond their tensor explicit (swATOP 4.5.3).

A tile is rounded up to the primitive's granule. Only the last tile of an axis can reach beyond the
tensor; its transfer moves the elements that exist, and the core re-packs the tile in its
scratchpad: padded with zeros after a get, cropped before a put. This is the paper's lightweight
padding, with the scratchpad as the auxiliary buffer: complete tiles cost nothing extra.

before:  get(a[at(i * 64, 64)] -> t); wait(t)
after:   get(a[at(i * 64, min(64, n - i * 64))] -> t); wait(t); if n < i * 64 + 64: repack(t)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common import expr
from tilewright.ir.nodes import LAST_CORE, Call, For, If, Program, Range, Stmt, Transfer, View, Wait
from tilewright.ir.primitives import Repack


@dataclass(frozen=True)
class HandleBoundary:
    """Clamps transfers to their tensors, and re-packs the tiles that were clamped."""

    name: ClassVar[str] = "handle_boundary"

    def apply(self, program: Program) -> Program:
        """The staged program with every transfer inside its tensor."""
        return replace(program, body=_rewrite(program.body, program, frozenset()))


def _rewrite(body: tuple[Stmt, ...], program: Program, rounded: frozenset[str]) -> tuple[Stmt, ...]:
    """Rewrite a body; `rounded` names the enclosing loops that may run beyond their tensors."""
    result: list[Stmt] = []
    due: If | None = None
    for stmt in body:
        match stmt:
            case For():
                beyond = rounded | {stmt.var} if _has_constant_rounding(stmt.extent) else rounded
                result.append(replace(stmt, body=_rewrite(stmt.body, program, beyond)))
            case If():
                branches = (_rewrite(b, program, rounded) for b in (stmt.then, stmt.orelse))
                result.append(If(stmt.condition, *branches))
            case Transfer():
                clamped, due = _clamp(stmt, program, rounded)
                if due and stmt.direction == "put":
                    result.append(due)
                    due = None
                result.append(clamped)
            case Wait() if due:
                result += [stmt, due]
                due = None
            case _:
                result.append(stmt)
    return tuple(result)


def _clamp(stmt: Transfer, program: Program, rounded: frozenset[str]) -> tuple[Transfer, If | None]:
    shape = program.tensor(stmt.tensor).shape
    pairs = [(r, n if r.stop is None else r.stop) for r, n in zip(stmt.ranges, shape, strict=True)]
    ranges = tuple(
        _inside(r, n) if _may_exceed(r, rounded) else replace(r, stop=None) for r, n in pairs
    )
    if ranges == stmt.ranges:
        return stmt, None
    beyond = [_exceeds(r, n) for r, n in pairs if _may_exceed(r, rounded)]
    condition = beyond[0] if len(beyond) == 1 else expr.binary("<", 0, expr.total(beyond))
    padded, real = _view(stmt, stmt.ranges), _view(stmt, ranges)
    views = (padded, real) if stmt.direction == "get" else (real, padded)
    return replace(stmt, ranges=ranges), If(condition, (Call(Repack(), views),))


def _may_exceed(r: Range, rounded: frozenset[str]) -> bool:
    """True if the extent is rounded up to a granule, or the start depends on a rounded loop."""
    return _is_rounded(r.extent) or bool(rounded & expr.free_vars(r.start))


def _is_rounded(e: expr.Expr) -> bool:
    return isinstance(e, expr.BinaryExpr) and (
        e.op == "ceil_div" or _is_rounded(e.a) or _is_rounded(e.b)
    )


def _has_constant_rounding(extent: expr.Expr) -> bool:
    """True if a loop covers an axis in steps of a constant size, which need not divide it."""
    if not isinstance(extent, expr.BinaryExpr):
        return False
    here = extent.op == "ceil_div" and isinstance(extent.b, expr.Const)
    return here or _has_constant_rounding(extent.a) or _has_constant_rounding(extent.b)


def _inside(r: Range, size: expr.Expr) -> Range:
    left = size - r.start if r.step == expr.Const(1) else expr.ceil_div(size - r.start, r.step)
    return replace(r, extent=expr.maximum(0, expr.minimum(r.extent, left)), stop=None)


def _exceeds(r: Range, size: expr.Expr) -> expr.Expr:
    """The condition that the last core's part reaches beyond the tensor. Every core evaluates it
    for the last core, so all decide alike; if any core's part exceeds the tensor, the last's does.
    """
    end = expr.substitute(r.start + (r.extent - 1) * r.step + 1, LAST_CORE)
    return expr.binary("<", size, end)


def _view(stmt: Transfer, ranges: tuple[Range, ...]) -> View:
    shape = tuple(r.extent for r in ranges)
    letters = "".join(chr(ord("a") + i) for i in range(len(shape)))
    return View(
        stmt.buffer, stmt.slot, shape, tuple(Range(expr.Const(0), e) for e in shape), letters
    )
