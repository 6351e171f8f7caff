"""The rows of a map, and the axes of a reduction: what its operands do along its loops.

In: a call whose operands broadcast to the first one. Out: expressions for the elements of a row,
for which operands stay the same along it, and for whether rows can be done by vectors. Axes of one
index vanish where code is generated, which may be known only once the factors are: then the row is
that of the next axis. A reduction's axes are told as they are, and joined where they are priced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    Const,
    Expr,
    binary,
    coefficient,
    free_vars,
    maximum,
    substitute,
    total,
)
from tilewright.ir.nodes import Call, Operand, View
from tilewright.ir.regions import strides_of

_LANES = 4


@dataclass(frozen=True)
class _Axis:
    role: str
    extent: Expr
    stride: Expr


def mapped_rows(call: Call) -> dict[str, Expr]:
    """`row`: elements of a row. `still`: one more than the sum of 2 ** i for each further operand i
    that stays the same along it. `by_vectors`: 2 where a row is whole vectors of four, contiguous
    in every operand that changes, and starts with one, else 1.
    """
    axes = _axes(call.operands[0])
    others = [_axes(operand) for operand in call.operands[1:]]
    found: dict[str, list[Expr]] = {"row": [], "still": [], "by_vectors": []}
    before: Expr = Const(1)
    for start, axis in enumerate(axes):
        chosen = before * (1 - binary("==", axis.extent, 1))
        inside = {a.role for a in axes[:start]}
        rest = [[a for a in other if a.role not in inside] for other in others]
        for name, value in _row(axes[start:], rest).items():
            found[name].append(chosen * value)
        before = before * binary("==", axis.extent, 1)
        if before == Const(0):
            break
    found["row"].append(before)
    return {
        "row": total(found["row"]),
        "still": 1 + total(found["still"]),
        "by_vectors": 1 + total(found["by_vectors"]),
    }


def reduced_axes(call: Call) -> dict[str, Expr]:
    """Of a reduction: `kept_n`, the extent of axis n of the results, innermost first, `y_apart_n`
    and `x_apart_n`, one more than the elements from one index of it to the next in y and x;
    `gathered_n` and `gathered_apart_n` of the axes along which it gathers; and `reduced`, which is
    always there.
    """
    y, x = call.operands
    found: dict[str, Expr] = {"reduced": Const(1)}
    others = _axes(x)
    for n, axis in enumerate(_axes(y)):
        other = _taken(axis.role, others)
        apart = 1 + (Const(0) if other is None else other.stride)
        found |= {f"kept_{n}": axis.extent, f"y_apart_{n}": 1 + axis.stride, f"x_apart_{n}": apart}
    for n, axis in enumerate(a for a in others if a.role == "k"):
        found |= {f"gathered_{n}": axis.extent, f"gathered_apart_{n}": 1 + axis.stride}
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
            return Const(_LANES)
        first = substitute(r.start, dict.fromkeys(walked, 0))
        for distance in (first, *moves):
            odd, single = (binary("!=", distance * stride % n, 0) for n in (2, _LANES))
            found = maximum(found, 1 + single + 2 * odd)
    return found


def _axes(operand: Operand) -> list[_Axis]:
    """Those with more than one index, innermost first."""
    sizes = operand.shape if isinstance(operand, View) else [r.extent for r in operand.ranges]
    found = zip(operand.roles, operand.ranges, strides_of(tuple(sizes)), strict=True)
    axes = [_Axis(role, r.extent, r.step * stride) for role, r, stride in found]
    return [a for a in reversed(axes) if a.extent != Const(1)]


def _row(axes: Sequence[_Axis], others: Sequence[list[_Axis]]) -> dict[str, Expr]:
    """The row whose innermost axis is the first one; an axis joins those inside it while every
    operand walks over them as over one.
    """
    inner, *outer = axes
    left = [list(other) for other in others]
    now = [inner, *(_taken(inner.role, other) for other in left)]
    unit, row = _all(binary("==", a.stride, 1) for a in now if a), inner.extent
    whole: Expr = Const(1)
    aligned: Expr = Const(1)
    still = total(1 << i for i, axis in enumerate(now[1:]) if axis is None)
    joined = True
    for axis in outer:
        following = [axis, *(_taken(axis.role, other) for other in left)]
        pairs = list(zip(now, following, strict=True))
        joined = joined and all((a is None) == (b is None) for a, b in pairs)
        whole = whole * int(joined)
        for a, b in pairs:
            if joined and a and b:
                whole = binary("and", whole, binary("==", b.stride, a.extent * a.stride))
        for a, b in pairs:
            if b is not None and a is not None:
                apart = binary("==", b.stride * (1 - whole) % _LANES, 0)
                aligned = binary("and", aligned, apart)
        row = row * (whole * (axis.extent - 1) + 1)
        now = following if joined else now
    vectors = binary("and", binary("==", row % _LANES, 0), binary("and", unit, aligned))
    return {"row": row, "still": still, "by_vectors": vectors}


def _taken(role: str, axes: list[_Axis]) -> _Axis | None:
    """The innermost axis of the role, no longer among the others."""
    for place, axis in enumerate(axes):
        if axis.role == role:
            return axes.pop(place)
    return None


def _all(conditions: Iterable[Expr]) -> Expr:
    result: Expr = Const(1)
    for condition in conditions:
        result = binary("and", result, condition)
    return result
