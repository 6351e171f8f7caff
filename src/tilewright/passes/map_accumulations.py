"""Accumulations become maps that take their result in: where it starts and when it is moved is said
by then, and what a family knows of maps holds for them.

before:  fill(y_tile); for t: get(x -> x_tile); accumulate(y_tile, x_tile; "sum", "x0")
after:   fill(y_tile); for t: get(x -> x_tile); map(y_tile, y_tile, x_tile; "x0 + x1")
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.ir.nodes import Call, Program, Stmt
from tilewright.ir.primitives import Accumulate
from tilewright.ir.visit import rewrite


@dataclass(frozen=True)
class MapAccumulations:
    """Replace calls of `accumulate` by calls of `map`."""

    name: ClassVar[str] = "map_accumulations"

    def apply(self, program: Program) -> Program:
        """Staged-stage program in, the same without accumulations out."""
        return replace(program, body=rewrite(program.body, _mapped))


def _mapped(stmt: Stmt) -> tuple[Stmt, ...]:
    match stmt:
        case Call(Accumulate() as accumulate, operands):
            return (Call(accumulate.executed, (operands[0], *operands)),)
        case _:
            return (stmt,)
