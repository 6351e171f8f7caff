"""The loops of an elementwise call as its code has them, before neighbours are joined.

In: a call on buffers, and which symbols are known where code is generated. Out: the extents that
its time depends on. The code's loops are those of `codegen.c.elementwise_calls`: axis by axis in
the order of the result's, each with a distance for every operand. Which of them vanish or become
one depends on the factors, so that is found in their values, where a call is priced. So are the
axes along which a reduction gathers joined, and of its operands, and of a product's by factors, it
is said how often they start with a whole vector.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from types import MappingProxyType

from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    Const,
    Expr,
    binary,
    coefficient,
    free_vars,
    maximum,
    product,
    substitute,
    total,
)
from tilewright.ir.loop_axes import (
    Axes,
    Loop,
    Paired,
    StridedAxis,
    axes_of,
    transform_axes,
    window_axes,
)
from tilewright.ir.nodes import CORE_SYMBOLS, Call, Operand, View
from tilewright.ir.primitives import (
    Copy,
    Fill,
    Map,
    MultiplyAccumulate,
    Reduce,
    ScaleAdd,
    Windows,
    WinogradOutput,
    WinogradTransform,
)
from tilewright.ir.regions import strides_of

ALIGNED_ELEMENTS = 4
"""Elements of a vector, which a row that is done by vectors starts at a multiple of."""
_MESH = ("mesh_rows", "mesh_columns")
_BY_ELEMENTS = (Fill, Copy, ScaleAdd, Map, MultiplyAccumulate, Reduce)


def nest_dims(
    call: Call,
    known: Collection[str] | None = None,
    turns: Mapping[str, Expr] = MappingProxyType({}),
) -> dict[str, Expr]:
    """Of each loop, from the innermost one, number 0: `loop_0`, its extent; `open_0`, one more than
    whether the code knows it only as it runs and so joins no loop around to it; `step_0_1`: one
    more than the elements from one iteration to the next in operand 1. `loops`: one more than there
    are.
    `start_1`: one more than how many elements behind a whole vector operand 1 starts, where that is
    known to the code.

    `known` are the symbols with a value where code is generated; without them all have one. An
    extent that is the same in the first and in the last of the `turns` of the loops around the call
    is known, too.
    Nothing for a call that has no such loops, or whose operands divide an axis differently.
    """
    views = [operand for operand in call.operands if isinstance(operand, View)]
    if len(views) < len(call.operands):
        return {}
    loops = _loops(call, views)
    if loops is None:
        return {}
    dims: dict[str, Expr] = {"loops": Const(len(loops) + 1)}
    fixed = None if known is None else {*known, *_MESH}
    for number, loop in enumerate(loops):
        around = loops[number + 1] if number + 1 < len(loops) else None
        dims[f"loop_{number}"] = loop.extent
        if not (_is_known(loop.extent, fixed) or (around and around.continues(loop))):
            dims[f"open_{number}"] = 1 + _varies(loop.extent, turns)
        for operand, stride in enumerate(loop.strides):
            dims[f"step_{number}_{operand}"] = stride + 1
    return dims | _starts(views, fixed)


def _is_known(e: Expr, known: set[str] | None) -> bool:
    return known is None or free_vars(e) <= known


def _varies(e: Expr, turns: Mapping[str, Expr]) -> Expr:
    """1 where an extent differs from the first turn of the loops to the last one, or from core to
    core.
    """
    if not turns or free_vars(e) & set(CORE_SYMBOLS):
        return Const(1)
    last = {name: count - 1 for name, count in turns.items()}
    return 1 - binary("==", substitute(e, dict.fromkeys(turns, 0)), substitute(e, last))


def _starts(views: Sequence[View], known: set[str] | None) -> dict[str, Expr]:
    found = {}
    for operand, view in enumerate(views):
        pairs = zip(view.ranges, strides_of(view.shape), strict=True)
        offset = total(r.start * stride for r, stride in pairs)
        if offset != Const(0) and _is_known(offset, known):
            found[f"start_{operand}"] = offset % ALIGNED_ELEMENTS + 1
    return found


def _loops(call: Call, views: Sequence[View]) -> list[Loop] | None:
    """Innermost first; of a reduction those over its results."""
    axes = [axes_of(view) for view in views]
    pairs: Paired
    match call.primitive:
        case Windows() as windows:
            pairs = window_axes(windows, axes, *_taken(axes[1], "rc"))
        case WinogradTransform() as transform:
            flat = 1 if isinstance(transform, WinogradOutput) else 0
            _, column = _taken(axes[1 - flat], "rc")
            axes[flat].pop("x", None)
            pairs = transform_axes(transform, axes, column)
        case own if own.by_elements or isinstance(own, _BY_ELEMENTS):
            pairs = [(letter, tuple(a.get(letter, []) for a in axes)) for letter in axes[0]]
        case _:
            return None
    loops: list[Loop] = []
    for _, operands in pairs:
        found = _matched(operands)
        if found is None:
            return None
        loops += found
    return loops[::-1]


def _taken(axes: Axes, letters: str) -> list[Expr]:
    """The strides of axes, 0 for one that is not there; they are taken out of `axes`."""
    found = [axes.pop(letter, []) for letter in letters]
    return [own[0].stride if own else Const(0) for own in found]


def _matched(operands: Sequence[list[StridedAxis]]) -> list[Loop] | None:
    """Loops over one axis, outermost first, divided as in the operand that divides it most. In
    others it is one dimension, or divided alike, or it is not there.
    """
    most = max(operands, key=len)
    inside = [product(a.extent for a in most[i + 1 :]) for i in range(len(most))]
    strides: list[list[Expr]] = []
    for axes in operands:
        if not axes:
            strides.append([Const(0)] * len(most))
        elif len(axes) == len(most):
            strides.append([a.stride for a in axes])
        elif len(axes) == 1:
            strides.append([axes[0].stride * within for within in inside])
        else:
            return None
    return [Loop(a.extent, tuple(s[i] for s in strides)) for i, a in enumerate(most)]


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
    found = {n: _vector_starts(o, turns.keys()) for n, o in zip(names, call.operands, strict=False)}
    if isinstance(call.primitive, MultiplyAccumulate):
        found["x_turns"] = _shifting_turns(call.operands[1], turns)
    return found


def _vector_starts(operand: Operand, loops: Set[str]) -> Expr:
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
