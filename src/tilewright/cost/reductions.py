"""Axes along which a reduction gathers, and how often its operands start with a vector.

In: a `reduce` on views. Out: expressions for the axes along which it gathers, which are told as
they are and joined where they are priced, and for how many iterations of the loops around the call
there are to one in which an operand starts with a whole vector. The loops over its results are
those of `nests`.
"""

from __future__ import annotations

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


def starts_of_vectors(call: Call, loops: frozenset[str]) -> dict[str, Expr]:
    """`y_starts` and `x_starts` of a reduction: in one of so many iterations of the `loops` around
    it does the operand start with a vector of four, 1, 2 or 4.
    """
    names = ("y_starts", "x_starts")
    return {n: _starts(o, loops) for n, o in zip(names, call.operands, strict=True)}


def _starts(operand: Operand, loops: frozenset[str]) -> Expr:
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
