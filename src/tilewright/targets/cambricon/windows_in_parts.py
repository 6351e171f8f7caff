"""Pools that fetch their rows in parts and compute each maximum where its last row is stored.

Two operations run beside a transfer, one in flight before it and one after it. The fetches and the
store of a turn are therefore separated, each with vector instructions of its own beside it.

before:  for tile: fill(y_tile); get(x[tile] -> x_tile); reduce(y_tile, x_tile, function=max)
                   put(y_tile)
after:   for tile:                                          # in slot tile % 2, next in 1 - that
             if tile == 0: get(x[0][0] -> x_tile); get(x[0][1] -> x_tile_last)
             get(x[tile + 1][0] -> x_tile)
             map(x_tile_last, x_tile_last, x_tile, expression=max(x0, x1))
             if 0 < tile: put(x_tile_last -> y[tile - 1])
             map(y[0 : 2], ..., expression=max(x0, x1))        # in the place of x_tile_last
             get(x[tile + 1][1] -> x_tile_last)
             map(y[2 : 7], ..., expression=max(x0, x1))
             if tile is last: put(x_tile_last -> y[tile])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from tilewright.common.errors import ScheduleError
from tilewright.common.expr import (
    Const,
    Expr,
    binary,
    minimum,
    product,
    round_up,
    substitute,
)
from tilewright.ir.nodes import Buffer, Call, For, If, Program, Range, Stmt, Transfer, View, Wait
from tilewright.ir.primitives import Fill, MatrixProduct
from tilewright.ir.primitives.maps import Map, Reduce
from tilewright.ir.visit import calls_of, in_first, in_last, rewrite
from tilewright.passes.double_buffer import fetch_next, slot_of, store_before
from tilewright.passes.infer_dma import SLOT_ELEMENTS, chain_of
from tilewright.seeds.steps import IN_PARTS
from tilewright.targets.cambricon.round_elements import part_along

_BEFORE = 2
"""Windows between the store and the second fetch: one beside each of them."""
_LARGEST = Map("max(x0, x1)")


@dataclass(frozen=True)
class WindowsInParts:
    """Fetches the rows of windows that `stages` marks `IN_PARTS`."""

    name: ClassVar[str] = "windows_in_parts"
    stages: Mapping[str, str]

    def apply(self, program: Program) -> Program:
        """The program with parts, if it has no product (whose weights come in parts). Raises
        ScheduleError if it gathers no windows.
        """
        loops, body = chain_of(program.body)
        own = next((tensor for tensor, at in self.stages.items() if at == IN_PARTS), None)
        if own is None or any(calls_of(program.body, MatrixProduct)):
            return program
        match [s for s in body if isinstance(s, Call | Transfer)]:
            case [
                Call(Fill()),
                Transfer("get") as fetched,
                Call(Reduce("max", "x0"), (View() as y, View() as x)),
                Transfer("put") as stored,
            ] if x.roles.count("k") == 2 and x.roles.replace("k", "") == y.roles:
                return _Windows(program, tuple(loops), fetched, stored, y, x).applied()
            case _:
                raise ScheduleError(
                    f"stage({own}, {IN_PARTS}): parts come of windows whose rows and columns are "
                    "dimensions, the largest elements of which are stored; name a loop instead"
                )


@dataclass(frozen=True)
class _Windows:
    """The maxima of windows in `x`, which a transfer fetches, and their store."""

    program: Program
    loops: tuple[For, ...]
    fetched: Transfer
    stored: Transfer
    y: View
    x: View

    @cached_property
    def along(self) -> list[int]:
        """The dimensions of rows and columns of a window."""
        return [d for d, role in enumerate(self.x.roles) if role == "k"]

    def applied(self) -> Program:
        """The program with parts."""
        rows = self.x.ranges[self.along[0]].extent
        first, first_rows = self._part(self.x.buffer, Const(0), rows - 1)
        last, last_row = self._part(f"{self.x.buffer}_last", rows - 1, Const(1))
        buffers = {b.name: b for b in self.program.buffers}
        del buffers[self.y.buffer]
        for view in (first_rows, last_row):
            buffers[view.buffer] = self._buffer(view)
        body = self._body((first, last), first_rows, last_row)
        for loop in reversed(self.loops):
            body = (replace(loop, body=body),)
        return replace(self.program, buffers=tuple(buffers.values()), body=body)

    def _body(self, parts: tuple[Transfer, Transfer], first: View, last: View) -> tuple[Stmt, ...]:
        """One turn; the fetches of the next one have slots of their own."""
        loops, (now, following) = self.loops, (slot_of(self.loops, ahead) for ahead in (0, 1))
        level, (row, column) = len(loops) - 1, self.along
        begun, ended = in_first(loops), in_last(loops)
        made = replace(self.stored, buffer=last.buffer, slot=now)
        one = part_along(last, row, Range(Const(0), Const(1)))
        others = first.ranges[row].extent
        rows = part_along(first, row, Range(Const(1), others - 1), "k")
        windows, left = self._windows(last, column)
        found = (
            If(begun, tuple(replace(part, slot=now) for part in parts)),
            *fetch_next(parts[0], loops, level, following),
            Call(_LARGEST, (one, one, part_along(first, row, Range(Const(0), Const(1))))),
            If(binary("<", 1, others), (Call(Reduce("max", "x0"), (one, rows)),)),
            *store_before(made, loops, level),
            windows,
            *fetch_next(parts[1], loops, level, following),
            left,
            If(ended, (made,)),
        )
        return rewrite(found, _waited_for)

    def _windows(self, row: View, column: int) -> tuple[Call, If]:
        """The maximum of each window of a row, stored in the row's place: of the first windows,
        which need one row of the tile, and of the rest.
        """
        letter = self.x.roles[column - 1]
        d = self.y.roles.index(letter)
        count, around = self.y.ranges[d].extent, product(r.extent for r in self.y.ranges[:d])
        cut = minimum(count, _BEFORE + (around - 1) * count)
        made = replace(self.y, buffer=row.buffer, slot=row.slot)
        single = "".join("." if d == self.along[0] else r for d, r in enumerate(row.roles))
        row = replace(row, roles=single)
        sides = (part_along(row, column, Range(Const(n), Const(1))) for n in (0, 1))

        def part(view: View, start: Expr, extent: Expr) -> View:
            ranges, place = list(view.ranges), view.roles.index(letter)
            ranges[place] = replace(ranges[place], start=start, extent=extent)
            return replace(view, ranges=tuple(ranges))

        views = (made, *sides)
        begun, left = (
            Call(_LARGEST, tuple(part(v, start, n) for v in views))
            for start, n in ((Const(0), cut), (cut, count - cut))
        )
        return begun, If(binary("<", cut, count), (left,))

    def _part(self, buffer: str, start: Expr, count: Expr) -> tuple[Transfer, View]:
        """The transfer of so many rows of all windows, and their view, in the present slot."""
        d = self.along[0]
        ranges, shape = list(self.fetched.ranges), list(self.x.shape)
        own = list(self.x.ranges)
        ranges[d] = replace(ranges[d], start=ranges[d].start + start, extent=count)
        shape[d], own[d] = count, Range(Const(0), count)
        now = slot_of(self.loops, 0)
        view = replace(self.x, buffer=buffer, shape=tuple(shape), ranges=tuple(own), slot=now)
        return replace(self.fetched, ranges=tuple(ranges), buffer=buffer, slot=now), view

    def _buffer(self, view: View) -> Buffer:
        """A buffer of two slots for a view."""
        at_first = {loop.var: Const(0) for loop in self.loops}
        elements = round_up(product(substitute(n, at_first) for n in view.shape), SLOT_ELEMENTS)
        like = self.program.buffer(self.x.buffer)
        return replace(like, name=view.buffer, elements=elements, copies=Const(2))


def _waited_for(stmt: Stmt) -> tuple[Stmt, ...] | None:
    """A transfer with its wait; None for other statements."""
    return (stmt, Wait(stmt.buffer, stmt.slot)) if isinstance(stmt, Transfer) else None
