"""How programs are lowered for a Cambricon: activations and results in the vector scratchpad,
weights in the matrix scratchpad, every product rounded where it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.expr import (
    Const,
    Expr,
    Var,
    binary,
    coefficient,
    free_vars,
    minimum,
    product,
)
from tilewright.ir.nodes import Call, For, If, Program, Range, Stmt, Transfer, View, Wait
from tilewright.ir.primitives import Copy, Map, MatrixProduct
from tilewright.ir.visit import calls_of, rewrite, walk
from tilewright.machine import Machine
from tilewright.passes.base import Pass
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import (
    InferDma,
    chain_of,
    main_call,
    operands_of,
    symbols_of,
    unguarded,
)
from tilewright.passes.lowering import Lowering
from tilewright.targets.cambricon.round_elements import RoundElements
from tilewright.targets.cambricon.round_products import MATRIX, VECTOR, RoundProducts


@dataclass(frozen=True)
class SlideWindows:
    """Fetches and gathers windows row by row where a loop moves over them: a row moves while the
    product before its own runs, and rows that neighbouring windows share move once. What is fetched
    in one run stays whole, and so does what is pooled: its tiles are fetched ahead.

    before:  copy(windows_tile, x_tile[0 : 7]); for pixel: product(windows_tile[pixel : pixel + 3])
    after:   for pixel: if pixel == 0: copy(windows_tile[0 : 3], x_tile[0 : 3])
                        if pixel + 1 < 5: copy(windows_tile[pixel + 3], x_tile[pixel + 3])
                        product(windows_tile[pixel : pixel + 3])
    """

    name: ClassVar[str] = "slide_windows"

    def apply(self, program: Program) -> Program:
        """The program with gathering inside the loops over windows."""

        def change(stmt: Stmt) -> tuple[Stmt, ...] | None:
            return (replace(stmt, body=slid(stmt.body)),) if isinstance(stmt, For) else None

        def slid(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
            found = next((s for s in body if isinstance(s, For)), None)
            multiplies = found and next(calls_of(found.body, MatrixProduct), None)
            return _slid(body, found, program) if found and multiplies else body

        return replace(program, body=slid(rewrite(program.body, change)))


def _slid(body: tuple[Stmt, ...], loop: For, program: Program) -> tuple[Stmt, ...]:
    """The body of which what fills a buffer that its loop moves over stands in that loop."""
    inside: list[Stmt] = []
    moved: set[Stmt] = set()
    for stmt in body[: body.index(loop)]:
        match stmt:
            case Call(Copy(), (View(buffer), View())) | Transfer("get", _, _, buffer):
                rows = _moving(loop, buffer)
            case _:
                continue
        if rows is None or not _is_apart(stmt, loop, *rows, program):
            continue
        waits = (Wait(buffer, Const(0)),) if isinstance(stmt, Transfer) else ()
        moved |= {stmt, *waits}
        inside += _gathered(stmt, waits, loop, *rows)
    rest = tuple(s for s in body if s not in moved)
    slid = replace(loop, body=(*inside, *loop.body))
    return tuple(slid if s is loop else s for s in rest)


def _moving(loop: For, buffer: str) -> tuple[int, Range] | None:
    """The dimension along which a loop moves over what it reads of a buffer, and its rows there."""
    calls = (s for s in walk(loop.body) if isinstance(s, Call))
    views = (o for c in calls for o in c.operands[1:] if isinstance(o, View))
    found = {
        (d, r)
        for v in views
        if v.buffer == buffer
        for d, r in enumerate(v.ranges)
        if loop.var in free_vars(r.start)
    }
    return found.pop() if len(found) == 1 else None


def _is_apart(
    stmt: Call | Transfer, loop: For, dimension: int, window: Range, program: Program
) -> bool:
    """True if a statement moves the indices of a dimension one by one, of windows that overlap."""
    if isinstance(stmt, Call):
        return True
    if minimum(coefficient(window.start, loop.var), window.extent) == window.extent:
        return False
    shape = program.tensor(stmt.tensor).shape
    around, inner = stmt.ranges[:dimension], stmt.ranges[dimension + 1 :]
    rows = zip(inner, shape[dimension + 1 :], strict=True)
    return all(r.extent == Const(1) for r in around) and any(r.extent != n for r, n in rows)


def _gathered(
    stmt: Call | Transfer, waits: tuple[Wait, ...], loop: For, dimension: int, rows: Range
) -> tuple[Stmt, ...]:
    """The first window's rows, and those that the next window has and the present one has not."""
    step = coefficient(rows.start, loop.var)
    new = minimum(step, rows.extent)
    later = (Var(loop.var) + 1) * step + (rows.extent - new)
    parts = (
        (binary("==", Var(loop.var), 0), _part(stmt, dimension, Const(0), rows.extent)),
        (binary("<", Var(loop.var) + 1, loop.extent), _part(stmt, dimension, later, new)),
    )
    return tuple(If(condition, (part, *waits)) for condition, part in parts)


def _part(stmt: Call | Transfer, dimension: int, first: Expr, count: Expr) -> Stmt:
    """The statement for some indices of a dimension of what it writes."""

    def part(ranges: tuple[Range, ...], d: int) -> tuple[Range, ...]:
        own = replace(ranges[d], start=ranges[d].start + first, extent=count)
        return (*ranges[:d], own, *ranges[d + 1 :])

    if isinstance(stmt, Transfer):
        inner = product(r.extent for r in stmt.ranges[dimension + 1 :])
        return replace(stmt, ranges=part(stmt.ranges, dimension), first=first * inner)
    made, source = (o for o in stmt.operands if isinstance(o, View))
    other = source.roles.index(made.roles[dimension])
    views = (
        replace(view, ranges=part(view.ranges, d))
        for view, d in ((made, dimension), (source, other))
    )
    return replace(stmt, operands=tuple(views))


@dataclass(frozen=True)
class SharedFirst:
    """Orders the loops of a map so that what is shared by many elements is fetched once for all of
    them: those that such an operand depends on come first.

    before:  for row: for channel: map(y[row, channel], x[row, channel], b[channel])
    after:   for channel: for row: map(y[row, channel], x[row, channel], b[channel])
    """

    name: ClassVar[str] = "shared_first"

    def apply(self, program: Program) -> Program:
        """The seed-stage program with its loops in this order."""
        loops, body = chain_of(program.body)
        main = main_call(unguarded(body)[1])
        if not isinstance(main.primitive, Map):
            return program
        y, *others = operands_of(main)
        shared = (x for x in others if not {*y.roles} <= {*x.roles})
        names = frozenset().union(*(symbols_of(x) for x in shared))
        ordered = sorted(loops, key=lambda loop: loop.var not in names)
        for loop in reversed(ordered):
            body = (replace(loop, body=body),)
        return replace(program, body=body)


def _staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The usual passes, then rounding and a memory for each buffer."""
    return (
        SharedFirst(),
        InferDma(stages, workspace=False, early=True),
        HandleBoundary(),
        RoundElements(),
        RoundProducts(),
        SlideWindows(),
    )


@dataclass(frozen=True)
class CambriconRules:
    """Two scratchpads; products of any extents."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one machine."""
        room = {name: machine.space(name).available_bytes for name in (VECTOR, MATRIX)}
        return Lowering(room, _staging, partial_blocks=True, any_extent=True, fixed_point=True)


RULES = CambriconRules()
