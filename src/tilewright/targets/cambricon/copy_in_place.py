"""Copies through one buffer: what is fetched is stored from where it lies.

In: a program that copies elements and computes nothing. Out: the program without the copy inside
the scratchpad, where both buffers would have the elements in one order. Transfers follow each
other, so that a second slot would save nothing: tiles may be as large as the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.expr import Const, free_vars
from tilewright.cost.buffers import is_whole_view
from tilewright.ir.nodes import Call, If, Program, Stmt, Transfer, View, Wait
from tilewright.ir.visit import rewrite, walk
from tilewright.targets.cambricon.primitives import RoundedMap


@dataclass(frozen=True)
class CopyInPlace:
    """Stores what is fetched.

    before:  get(x -> x_tile); wait(x_tile); rounded_map(y_tile, x_tile, expression=x0)
             put(y_tile -> y); wait(y_tile)
    after:   get(x -> x_tile); wait(x_tile); put(x_tile -> y); wait(x_tile)
    """

    name: ClassVar[str] = "copy_in_place"

    def apply(self, program: Program) -> Program:
        """The program with one buffer."""
        body = rewrite(program.body, lambda s: () if _is_dead(s) else None)
        calls = [s for s in walk(body) if isinstance(s, Call)]
        if len(calls) != 1 or len(program.buffers) != 2 or not _copies(calls[0]):
            return program
        made, fetched = (o.buffer for o in calls[0].operands if isinstance(o, View))

        def change(stmt: Stmt) -> tuple[Stmt, ...] | None:
            if stmt == calls[0]:
                return ()
            stores = isinstance(stmt, Transfer | Wait) and stmt.buffer == made
            return (replace(stmt, buffer=fetched),) if stores else None

        slots = frozenset().union(*(free_vars(b.copies) for b in program.buffers))
        parameters = tuple(name for name in program.parameters if name not in slots)
        buffers = (replace(program.buffer(fetched), copies=Const(1)),)
        return replace(program, parameters=parameters, buffers=buffers, body=rewrite(body, change))


def _is_dead(stmt: Stmt) -> bool:
    return isinstance(stmt, If) and stmt.condition == Const(0) and not stmt.orelse


def _copies(call: Call) -> bool:
    """True for a copy of a whole tile that keeps the order of its elements."""
    match call:
        case Call(RoundedMap(expression="x0"), (View() as made, View() as fetched)):
            own = [replace(view, buffer="", slot=Const(0)) for view in (made, fetched)]
            return own[0] == own[1] and is_whole_view(made)
        case _:
            return False
