"""The loops of an elementwise call as its code has them, before neighbouring loops are joined.

In: a call on buffers, and the symbols that are known when code is generated. Out: the extents that
its time depends on. The loops are those of `codegen.c.elementwise_calls`: axis by axis in the order
of the result, each with a stride for every operand. Which loops vanish or join depends on the
values of the tile factors, so it is decided when a call is priced; likewise for the axes along
which a reduction gathers. For operands of reductions and of products by factors, further entries
say how often they start on a vector boundary.
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
"""Elements of a vector: rows that are computed by vectors start at multiples of it."""
_MESH = ("mesh_rows", "mesh_columns")
_BY_ELEMENTS = (Fill, Copy, ScaleAdd, Map, MultiplyAccumulate, Reduce)


def nest_dims(
    call: Call,
    known: Collection[str] | None = None,
    turns: Mapping[str, Expr] = MappingProxyType({}),
) -> dict[str, Expr]:
    """Entries for the code's loops, numbered from the innermost, 0. All but the extents are stored
    plus one, as an extent of 0 means that nothing is done.

    `loops`: their number. `loop_0`: the extent. `open_0`: 1 if the extent is known only at run
    time, so that no outer loop joins this one. `step_0_1`: elements of operand 1 from one iteration
    to the next. `start_1`: elements from a vector boundary to operand 1, where the code knows them.

    `known` are the symbols with a value when code is generated, None for all. An extent is known,
    too, if it is the same in the first and in the last of the `turns` of the loops around the call.
    Empty for a call without such loops, or whose operands divide an axis differently.
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
    """1 where an extent differs between the loops' first and last turns, or between cores."""
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
    """The loops of a call, innermost first; for a reduction, the loops over its results. None for a
    call without loops of this form.
    """
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
    """The strides of the axes `letters`, 0 for a missing one; the axes are removed."""
    found = [axes.pop(letter, []) for letter in letters]
    return [own[0].stride if own else Const(0) for own in found]


def _matched(operands: Sequence[list[StridedAxis]]) -> list[Loop] | None:
    """Loops over one axis, outermost first, divided as in the operand with the most dimensions
    along it. Other operands have as many, one or none; otherwise None.
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
    """For each axis along which a reduction gathers, numbered from the innermost: `gathered_n`, its
    extent, and `gathered_apart_n`, its stride in elements plus one.
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
    """`y_starts` and `x_starts`: the operand starts on a boundary of four elements in one of 1, 2
    or 4 iterations of the loops around the call, which have `turns`. For a product by factors,
    `x_turns` counts the iterations in which x starts elsewhere within a vector.
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
    """Number of iterations of the loops that move a view by a fraction of a vector."""
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
