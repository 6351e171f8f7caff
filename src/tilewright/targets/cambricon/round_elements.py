"""Make maps and reductions of fixed point the vector instructions that compute them, step by step.

Each instruction rounds and saturates, and the program says so: its interpreter computes the bits
that the units do. What an expression needs between its steps lies in a buffer of temporaries.

before:  fill(y_tile, value=-inf); reduce(y_tile, x_tile, function=max)
         map(y_tile, y_tile, expression=tanh(x0)); map(z_tile, x_tile, expression=x0)
after:   fill(y_tile, value=-32768); rounded_reduce(y_tile, x_tile, expression=max(x0, x1), ...)
         rounded_map(y_tile, y_tile, expression=tanh(x0), ..., work=y_work)
         turned(z_tile, x_tile, one=256, work=z_unit)      # z_tile[m, n] = x_tile[n, m]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import ClassVar

from msgspec import structs

from tilewright.common.dtypes import DType, dtype
from tilewright.common.errors import ProgramError, ScheduleError
from tilewright.common.expr import Const, Expr, binary, product, round_up, substitute
from tilewright.cost.buffers import is_whole_view
from tilewright.ir.nodes import Buffer, Call, For, Operand, Program, Stmt, View
from tilewright.ir.primitives import Copy, Fill
from tilewright.ir.primitives.maps import Accumulate, Map, Reduce
from tilewright.ir.scalar import Apply, Element, renumbered
from tilewright.ir.visit import rewrite, walk
from tilewright.passes.infer_dma import SLOT_ELEMENTS
from tilewright.targets.cambricon.primitives import RoundedMap, RoundedReduce, StepByStep, Turned
from tilewright.targets.cambricon.vector_steps import raw_number

_COMBINED = {"sum": "+", "max": "max", "prod": "*"}


@dataclass(frozen=True)
class RoundElements:
    """Replaces what computes elements of fixed point."""

    name: ClassVar[str] = "round_elements"

    def apply(self, program: Program) -> Program:
        """Raises ScheduleError for a function that no instructions compute."""
        loops = [s.var for s in walk(program.body) if isinstance(s, For)]
        rounding = _Rounding(program, dict.fromkeys((*loops, "rid", "cid"), Const(0)))
        body = rewrite(program.body, rounding.change)
        return replace(program, buffers=(*program.buffers, *rounding.work.values()), body=body)


@dataclass
class _Rounding:
    """The calls of a program rounded: `first` are variables in the first turn of loops, whose tiles
    are whole, `work` the buffers of what calls need beside their operands.
    """

    program: Program
    first: Mapping[str, Expr]
    work: dict[str, Buffer] = field(default_factory=dict)

    def change(self, stmt: Stmt) -> tuple[Stmt, ...] | None:
        """Statements in place of a call of fixed point; None for other statements."""
        if not isinstance(stmt, Call) or not isinstance(y := stmt.operands[0], View):
            return None
        kind = dtype(self.program.buffer(y.buffer).dtype)
        if kind.kind != "fixed":
            return None
        if isinstance(stmt.primitive, Fill):
            raw = raw_number(stmt.primitive.value, kind.fraction_bits)
            return (replace(stmt, primitive=Fill(float(raw))),)
        if turned := _turned(stmt):
            size = 2 * self._extent(turned.operands[0], "m")
            unit = self._reserved(f"{y.buffer}_unit", kind, size)
            one = 1 << kind.fraction_bits
            return (replace(turned, primitive=Turned(one=one, work=unit)),)
        if isinstance(stmt.primitive, Accumulate):  # one step, which reads the result so far
            taken = stmt.primitive.executed
            stmt = replace(stmt, primitive=taken, operands=(y, *stmt.operands))
        return self._in_steps(stmt, y, kind)

    def _in_steps(self, call: Call, y: View, kind: DType) -> tuple[Stmt, ...] | None:
        rounded = _rounded(call, kind.fraction_bits)
        if rounded is None:
            return None
        try:
            needed = rounded.steps(len(call.operands) - 1).temporaries
        except ProgramError as error:
            raise ScheduleError(error.message, fix=error.fix) from error
        if needed:
            size = self._extent(y, y.roles)
            name = self._reserved(f"{y.buffer}_work", kind, size, needed)
            rounded = structs.replace(rounded, work=name)
        return (replace(call, primitive=rounded),)

    def _extent(self, view: Operand, letters: str) -> Expr:
        """Elements of a whole tile along these axes."""
        pairs = zip(view.roles, view.ranges, strict=True)
        return product(substitute(r.extent, self.first) for role, r in pairs if role in letters)

    def _reserved(self, name: str, kind: DType, size: Expr, count: int = 1) -> str:
        """A buffer for what several calls need in turn, the largest of them."""
        elements = count * round_up(size, SLOT_ELEMENTS)
        if name in self.work:
            elements = binary("max", elements, self.work[name].elements)
        self.work[name] = Buffer(name, kind.name, elements)
        return name


def _rounded(call: Call, fraction_bits: int) -> StepByStep | None:
    """The primitive that takes the place of a call's, None for what computes nothing."""
    match call.primitive:
        case Map(expression):
            return RoundedMap(expression, fraction_bits)
        case Reduce(function) as gathering:
            each = renumbered(gathering.scalar, [Element(1)])
            combined = str(Apply(_COMBINED[function], (Element(0), each)))
            return RoundedReduce(combined, fraction_bits)
        case _:
            return None


def _turned(call: Call) -> Call | None:
    """A copy after which another dimension runs along memory, with the roles of `Turned`; None for
    any other call.
    """
    match call:
        case Call(Map("x0") | Copy(), (View() as y, View() as x)):
            pass
        case _:
            return None
    if not is_whole_view(y) or not is_whole_view(x):
        return None
    pairs = zip(y.roles, x.roles, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    outer, moved, inner = y.roles[:same], y.roles[same:], x.roles[same:]
    for cut in range(1, len(moved)):
        if inner == moved[cut:] + moved[:cut]:
            m, n = moved[:cut], moved[cut:]
            names = str.maketrans(m + n, "m" * len(m) + "n" * len(n))
            turned = (replace(o, roles=o.roles.translate(names)) for o in (y, x))
            return None if {"m", "n"} & {*outer} else replace(call, operands=tuple(turned))
    return None
