"""The passes to the staged stage: transfers inferred, boundaries explicit, all still parametric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.ir.nodes import Call, Program, Stmt
from tilewright.ir.primitives import Accumulate
from tilewright.ir.visit import rewrite
from tilewright.passes.base import Pass
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import InferDma

# Accumulations become maps that take their result in: where it starts and when it is moved is
# said by then, and what a family knows of maps holds for them.
#
# before: fill(y_tile); for t: get(x -> x_tile); accumulate(y_tile, x_tile; "sum", "x0")
# after:  fill(y_tile); for t: get(x -> x_tile); map(y_tile, y_tile, x_tile; "x0 + x1")


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


Staging = Callable[[Mapping[str, str]], tuple[Pass, ...]]
"""From each tensor's stage (the loop outside which it is transferred) to the passes of a nest."""


def staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The passes for machines with scratchpads, once per set of discrete choices."""
    return InferDma(stages), HandleBoundary()
