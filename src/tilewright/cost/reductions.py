"""Axes along which a reduction gathers, and how often its operands start with a vector.

In: a `reduce` on views. Out: expressions for the axes along which it gathers, which are told as
they are and joined where they are priced, and for how many iterations of the loops around the call
there are to one in which an operand starts with a whole vector. The loops over its results are
those of `nests`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    Const,
    Expr,
    binary,
    coefficient,
    free_vars,
    maximum,
    substitute,
)
from tilewright.cost.nests import ALIGNED_ELEMENTS
from tilewright.ir.nodes import Call, Operand, View
from tilewright.ir.primitives import MultiplyAccumulate
from tilewright.ir.regions import strides_of


def gathered_axes(call: Call) -> dict[str, Expr]:
    """`gathered_n`, the extent of axis n of those along which a reduction gathers, innermost first,
    and `gathered_apart_n`, one more than the elements from one index of it to the next.
    """
    found: dict[str, Expr] = {}
    source = call.operands[1]
    if not isinstance(source, View):
        return found
    axes = list(zip(source.roles, source.ranges, strides_of(source.shape), strict=True))
    taken = [(r, stride) for role, r, stride in axes if role == "k" and r.extent != Const(1)]
    for n, (r, stride) in enumerate(reversed(taken)):
        found |= {f"gathered_{n}": r.extent, f"gathered_apart_{n}": 1 + r.step * stride}
    return found


def starts_of_vectors(call: Call, turns: Mapping[str, Expr]) -> dict[str, Expr]:
    """`y_starts` and `x_starts`: in one of so many iterations of the loops around the call, which
    have `turns`, does the operand start with a vector of four, 1, 2 or 4. Of a product by factors
    `x_turns` are the iterations in which x starts elsewhere within a vector.
    """
    names = ("y_starts", "x_starts")
    found = {n: _starts(o, turns.keys()) for n, o in zip(names, call.operands, strict=False)}
    if isinstance(call.primitive, MultiplyAccumulate):
        found["x_turns"] = _shifting_turns(call.operands[1], turns)
    return found


def _starts(operand: Operand, loops: Set[str]) -> Expr:
    if not isinstance(operand, View):
        return Const(1)
    found: Expr = Const(1)
    for r, stride in zip(operand.ranges, strides_of(operand.shape), strict=True):
        walked = loops & free_vars(r.start)
        try:
            moves = [coefficient(r.start, name) for name in sorted(walked)]
        except ProgramError:
            return Const(ALIGNED_ELEMENTS)
        first = substitute(r.start, dict.fromkeys(walked, 0))
        for distance in (first, *moves):
            odd, single = (binary("!=", distance * stride % n, 0) for n in (2, ALIGNED_ELEMENTS))
            found = maximum(found, 1 + single + 2 * odd)
    return found


def _shifting_turns(operand: Operand, turns: Mapping[str, Expr]) -> Expr:
    """The iterations of the loops that move a view by other than whole vectors."""
    found: Expr = Const(1)
    if not isinstance(operand, View):
        return found
    axes = list(zip(operand.ranges, strides_of(operand.shape), strict=True))
    for name, count in turns.items():
        shifts: Expr = Const(0)
        for r, stride in axes:
            try:
                move = coefficient(r.start, name) * stride
            except ProgramError:
                move = Const(1)
            shifts = maximum(shifts, binary("!=", move % ALIGNED_ELEMENTS, 0))
        found = found * (shifts * (count - 1) + 1)
    return found
