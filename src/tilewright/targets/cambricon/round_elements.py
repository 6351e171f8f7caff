"""Make maps and reductions of fixed point the vector instructions that compute them, step by step.

Each instruction rounds and saturates, and the program says so: its interpreter computes the bits
that the units do. What an expression needs between its steps lies in a buffer of temporaries.

before:  fill(y_tile, value=-inf); reduce(y_tile, x_tile, function=max)
         map(y_tile, y_tile, expression=tanh(x0))
after:   fill(y_tile, value=-32768); rounded_reduce(y_tile, x_tile, expression=max(x0, x1), ...)
         rounded_map(y_tile, y_tile, expression=tanh(x0), ..., work=y_work)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from msgspec import structs

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError, ScheduleError
from tilewright.common.expr import Const, Expr, binary, product, round_up, substitute
from tilewright.ir.nodes import Buffer, Call, For, Program, Stmt, View
from tilewright.ir.primitives import Fill
from tilewright.ir.primitives.maps import Accumulate, Map, Reduce
from tilewright.ir.scalar import Apply, Element, renumbered
from tilewright.ir.visit import rewrite, walk
from tilewright.passes.infer_dma import SLOT_ELEMENTS
from tilewright.targets.cambricon.primitives import RoundedMap, RoundedReduce, StepByStep
from tilewright.targets.cambricon.vector_steps import raw_number

_COMBINED = {"sum": "+", "max": "max", "prod": "*"}


@dataclass(frozen=True)
class RoundElements:
    """Replaces what computes elements of fixed point."""

    name: ClassVar[str] = "round_elements"

    def apply(self, program: Program) -> Program:
        """Raises ScheduleError for a function that no instructions compute."""
        loops = [s.var for s in walk(program.body) if isinstance(s, For)]
        first: dict[str, Expr] = dict.fromkeys((*loops, "rid", "cid"), Const(0))
        work: dict[str, Buffer] = {}

        def change(stmt: Stmt) -> tuple[Stmt, ...] | None:
            if not isinstance(stmt, Call) or not isinstance(y := stmt.operands[0], View):
                return None
            kind = dtype(program.buffer(y.buffer).dtype)
            if kind.kind != "fixed":
                return None
            if isinstance(stmt.primitive, Fill):
                raw = raw_number(stmt.primitive.value, kind.fraction_bits)
                return (replace(stmt, primitive=Fill(float(raw))),)
            rounded = _rounded(stmt, kind.fraction_bits)
            if rounded is None:
                return None
            try:
                needed = rounded.steps(len(stmt.operands) - 1).temporaries
            except ProgramError as error:
                raise ScheduleError(error.message, fix=error.fix) from error
            if needed:
                name = f"{y.buffer}_work"
                size = product(
                    substitute(r.extent, {**first, "rid": 0, "cid": 0}) for r in y.ranges
                )
                elements = needed * round_up(size, SLOT_ELEMENTS)
                if name in work:
                    elements = binary("max", elements, work[name].elements)
                work[name] = Buffer(name, kind.name, elements)
                rounded = structs.replace(rounded, work=name)
            return (replace(stmt, primitive=rounded),)

        body = rewrite(program.body, change)
        return replace(program, buffers=(*program.buffers, *work.values()), body=body)


def _rounded(call: Call, fraction_bits: int) -> StepByStep | None:
    """The primitive that takes the place of a call's, None for what computes nothing."""
    match call.primitive:
        case Map(expression):
            return RoundedMap(expression, fraction_bits)
        case Reduce(function) | Accumulate(function) as gathering:
            each = renumbered(gathering.scalar, [Element(1)])
            combined = str(Apply(_COMBINED[function], (Element(0), each)))
            return RoundedReduce(combined, fraction_bits)
        case _:
            return None
