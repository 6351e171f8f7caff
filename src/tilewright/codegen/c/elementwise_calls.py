"""Calls of the elementwise primitives: function name, pointers, extents and strides.

In: a call on views of buffers, or of tensors used in place. Out: the call of a function of
`elementwise_text`. All targets whose cores run C write these calls alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isinf
from typing import Any, TypeAlias

from tilewright.codegen.c.elementwise_text import STRIDED_ARGUMENTS
from tilewright.codegen.c.expression import Scope, c_expression
from tilewright.codegen.c.loop_nest import (
    matched,
    merge_loops,
    padded,
    view_axes,
    view_offset,
)
from tilewright.codegen.c.names import Naming
from tilewright.codegen.c.winograd_text import transform_name
from tilewright.codegen.c.writer import CWriter, library_text
from tilewright.common.dtypes import DType, dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, evaluate
from tilewright.common.fixed_point import Rounding
from tilewright.ir.loop_axes import Axes, Loop, StridedAxis, transform_axes, window_axes
from tilewright.ir.nodes import Program, View
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import (
    Copy,
    Fill,
    Repack,
    Requantise,
    ScaleAdd,
    Windows,
    WinogradFilter,
    WinogradInput,
    WinogradOutput,
    WinogradTransform,
)
from tilewright.ir.scalar import c_number
from tilewright.ir.winograd import KERNEL_POINTS

_REQUANTISE = library_text("requantise.h")

_UP: dict[Rounding, str] = {
    "even": "rest > half || (rest == half && (down & 1))",
    "half_up": "rest >= half",
    "floor": "0",
    "zero": "from[i * dx] < 0 && rest != 0",
}
"""C condition for rounding up to the value above the shifted one, by rounding mode."""


@dataclass(frozen=True)
class Requantisation:
    """A static C function that shifts integer sums, rounds once, and saturates or keeps the low
    bits: types of sums and results, rounding and overflow. Right shifts of negative numbers are
    arithmetic, as in all compilers; no intermediate value overflows.
    """

    sums: DType
    result: DType
    rounding: Rounding
    saturate: bool

    @property
    def name(self) -> str:
        """The name of the function."""
        overflow = "saturate" if self.saturate else "wrap"
        return f"tw_requantise_{self.sums}_{self.result}_{self.rounding}_{overflow}"

    def text(self) -> str:
        """The text of the static function."""
        limits = "".join(self._limits()) if self.saturate else ""
        words = {
            "NAME": self.name,
            "FROM": self.sums.c_name,
            "TO": self.result.c_name,
            "STRIDED": STRIDED_ARGUMENTS,
            "CLAMPED": "limited to what y holds" if self.saturate else "its low bits",
            "UP": _UP[self.rounding],
            "LIMITS": limits,
        }
        text = _REQUANTISE
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    def _limits(self) -> Iterator[str]:
        (low, high), (least, most) = self.result.limits, self.sums.limits
        if low > least:
            yield f"            value = value < {low} ? {low} : value;\n"
        if high < most:
            yield f"            value = value > {high} ? {high} : value;\n"


@dataclass(frozen=True)
class CallContext:
    """The context in which a call is written."""

    program: Program
    naming: Naming
    scope: Scope
    writer: CWriter

    def c(self, e: Expr) -> str:
        """An expression as C."""
        return c_expression(e, self.scope)

    def pointer(self, view: View, offset: Expr) -> str:
        """The address `offset` elements into the view's slot, or into the tensor used in place."""
        if view.buffer not in self.naming.buffers:
            return self.place(view.buffer, offset)
        elements = int(evaluate(self.program.buffer(view.buffer).elements, {}))
        return self._plus(self.naming.buffers[view.buffer], view.slot * elements + offset)

    def place(self, tensor: str, offset: Expr) -> str:
        """The address `offset` elements into a tensor."""
        return self._plus(self.naming.tensors[tensor], offset)

    def _plus(self, base: str, offset: Expr) -> str:
        return base if offset == Const(0) else f"{base} + {self.c(offset)}"

    def element_type(self, view: View) -> str:
        """The name of the element type of the view's buffer or tensor."""
        if view.buffer in self.naming.buffers:
            return dtype(self.program.buffer(view.buffer).dtype).name
        return dtype(self.program.tensor(view.buffer).dtype).name

    def function(self, stem: str, view: View) -> str:
        """The variant of a function for the view's element type."""
        return f"{stem}_{self.element_type(view)}"


def check_element_types(
    primitive: Primitive, views: tuple[View, ...], context: CallContext
) -> None:
    """Raise ProgramError unless all operands share an element type or the primitive converts."""
    types = {context.element_type(v) for v in views}
    if len(types) > 1 and primitive.computed_in is None and not isinstance(primitive, Requantise):
        raise ProgramError(f"{primitive.name} mixes element types {', '.join(sorted(types))}")


def finite(primitive: Primitive, name: str, value: float) -> str:
    """A finite attribute as C. Raises ProgramError for infinities and NaN."""
    value = float(value)
    if not isfinite(value):
        raise ProgramError(f"{primitive.name}: {name} is {value}", fix="give a finite number")
    return repr(value)


def write_loops(loops: tuple[Loop, ...], operands: tuple[str, ...], context: CallContext) -> None:
    """Write the arrays `count` and `<operand>_stride` of the loops."""
    context.writer.array("const long count[TW_LOOPS]", [context.c(loop.extent) for loop in loops])
    for i, name in enumerate(operands):
        strides = [context.c(loop.strides[i]) for loop in loops]
        context.writer.array(f"const long {name}_stride[TW_LOOPS]", strides)


def common_loops(
    views: tuple[View, ...], primitive: Primitive, beside: str = ""
) -> tuple[Loop, ...]:
    """The loops over the elements of the first view, merged where possible, except over the axes
    `beside`; the other views broadcast.
    """
    axes = [view_axes(v) for v in views]
    pairs = [(letter, tuple(a.get(letter, []) for a in axes)) for letter in axes[0]]
    loops = matched(pairs, primitive.name)
    for i, mine in enumerate(axes[1:], 1):
        extra = [a for a in mine if mine[a] and a not in axes[0] and a not in beside]
        if extra:
            raise ProgramError(
                f"{primitive.name}: operand {i} has axis {extra[0]!r}, the result has not"
            )
    return merge_loops(loops)


def _nest(views: tuple[View, ...], primitive: Primitive) -> tuple[Loop, ...]:
    return padded(common_loops(views, primitive), len(views), primitive.name)


def _fill(fill: Fill, views: tuple[View, ...], context: CallContext) -> None:
    (y,) = views
    with context.writer.block():
        write_loops(_nest(views, fill), ("y",), context)
        arguments = [context.pointer(y, view_offset(y)), "count", "y_stride"]
        value = c_number(fill.value) if isinf(fill.value) else finite(fill, "value", fill.value)
        arguments.append(value)
        context.writer.call(context.function("tw_fill", y), arguments)


def check_copied_axes(views: tuple[View, ...]) -> None:
    """Raise ProgramError unless the operands of a copy have the same axes."""
    y, x = map(view_axes, views)
    for letter in y:
        if bool(y[letter]) != bool(x.get(letter)):
            raise ProgramError(f"the operands of copy disagree about axis {letter!r}")


def _copy(copy: Copy, views: tuple[View, ...], context: CallContext) -> None:
    check_copied_axes(views)
    _write_copy(_nest(views, copy), views, context)


def requantisation(round_off: Requantise, kinds: Sequence[str]) -> Requantisation:
    """The function that converts sums to results of these `kinds` (result, sums)."""
    result, sums = map(dtype, kinds)
    return Requantisation(sums, result, round_off.rounding, bool(round_off.saturate))


def emit_requantise(round_off: Requantise, views: tuple[View, ...], context: CallContext) -> None:
    """Write the call of the function of `requantisation`."""
    with context.writer.block():
        write_loops(_nest(views, round_off), ("y", "x"), context)
        pointers = [context.pointer(v, view_offset(v)) for v in views]
        arguments = [*pointers, "count", "y_stride", "x_stride", str(round_off.shift)]
        function = requantisation(round_off, [context.element_type(v) for v in views])
        context.writer.call(function.name, arguments)


def _scale_add(combine: ScaleAdd, views: tuple[View, ...], context: CallContext) -> None:
    y = views[0]
    alpha = finite(combine, "alpha", combine.alpha)
    for x in views[1:] or (y,):
        beta = finite(combine, "beta", combine.beta) if len(views) > 1 else "0.0"
        with context.writer.block():
            write_loops(_nest((y, x), combine), ("y", "x"), context)
            pointers = [context.pointer(v, view_offset(v)) for v in (y, x)]
            arguments = [*pointers, "count", "y_stride", "x_stride", alpha, beta]
            context.writer.call(context.function("tw_scale_add", y), arguments)
        alpha = "1.0"


def _repack(_: Repack, views: tuple[View, ...], context: CallContext) -> None:
    target, source = views
    if len(target.shape) != len(source.shape) or target.buffer != source.buffer:
        raise ProgramError(
            "repack changes the shape of one tile in its slot: two shapes of one rank"
        )
    rank = len(target.shape)
    with context.writer.block():
        for name, view in (("new_shape", target), ("old_shape", source)):
            shape = [context.c(e) for e in view.shape]
            context.writer.array(f"const long {name}[{rank}]", shape)
        arguments = [context.pointer(target, Const(0)), str(rank), "new_shape", "old_shape"]
        context.writer.call(context.function("tw_repack", target), arguments)


def window_loops(gather: Windows, views: tuple[View, ...]) -> tuple[Loop, ...]:
    """Loops of a copy that gathers windows; loops over their points overlap in the pixels."""
    y, x = views
    name, axes = gather.name, [view_axes(y), view_axes(x)]
    reach = (gather.rows - 1) * gather.row_step + 1
    row, col = _grid(axes[1], x, reach, name)
    return merge_loops(matched(window_axes(gather, axes, row, col), name))


def _windows(gather: Windows, views: tuple[View, ...], context: CallContext) -> None:
    _write_copy(padded(window_loops(gather, views), 2, gather.name), views, context)


def _write_copy(loops: tuple[Loop, ...], views: tuple[View, ...], context: CallContext) -> None:
    with context.writer.block():
        write_loops(loops, ("y", "x"), context)
        pointers = [context.pointer(v, view_offset(v)) for v in views]
        arguments = [*pointers, "count", "y_stride", "x_stride"]
        context.writer.call(context.function("tw_copy", views[0]), arguments)


def _winograd(transform: WinogradTransform, views: tuple[View, ...], context: CallContext) -> None:
    """Write the transform of one tile of points, repeated over tiles and all further axes."""
    y, x = views
    name, which, tile = transform.name, transform.finite_points, transform.output_tile
    points = tile + KERNEL_POINTS - 1
    axes = [view_axes(y), view_axes(x)]
    spatial, flat = (0, 1) if isinstance(transform, WinogradOutput) else (1, 0)
    grid = _grid(axes[spatial], views[spatial], _side(transform, points), name)
    plane = _plane(axes[flat].pop("x", []), points, name)
    loops = matched(transform_axes(transform, axes, grid[1]), name)
    nest = padded(merge_loops(loops), 2, name)
    y_point, x_point = (plane, grid) if flat == 0 else (grid, plane)
    with context.writer.block():
        write_loops(nest, ("y", "x"), context)
        arguments = [context.pointer(v, view_offset(v)) for v in (y, x)]
        arguments += ["count", "y_stride", "x_stride"]
        arguments += [context.c(e) for e in (*y_point, *x_point)]
        stem = f"tw_{name}_{transform_name(which)}"
        context.writer.call(context.function(stem, y), arguments)


def _side(transform: WinogradTransform, points: int) -> int:
    """Rows of the tile of pixels or kernel weights that a transform reads or writes."""
    match transform:
        case WinogradInput():
            return points
        case WinogradOutput():
            return transform.output_tile
        case _:
            return KERNEL_POINTS


def _grid(axes: Axes, view: View, side: int, primitive: str) -> tuple[Expr, Expr]:
    """Row and column stride of the points in space, removed from `axes`; 0 for an absent axis."""
    rows, columns = (axes.pop(letter, []) or [StridedAxis(Const(1), Const(0))] for letter in "rc")
    if len(rows) != 1 or len(columns) != 1 or rows[0].extent != Const(side):
        raise ProgramError(
            f"{primitive}: {view.buffer!r} must have {side} rows and one column axis"
        )
    return rows[0].stride, columns[0].stride


def _plane(axes: list[StridedAxis], points: int, primitive: str) -> tuple[Expr, Expr]:
    """Row and column stride of the transformed points, stored along one axis or two."""
    match axes:
        case [StridedAxis(Const(n), stride)] if n == points * points:
            return stride * points, stride
        case [StridedAxis(Const(r), row), StridedAxis(Const(c), column)] if r == c == points:
            return row, column
        case _:
            raise ProgramError(f"{primitive}: axis 'x' must have {points} x {points} points")


Emitter: TypeAlias = Callable[[Any, tuple[View, ...], CallContext], None]
"""Writes the call of one kind of primitive. Raises ProgramError for unsupported operands."""
Emitters: TypeAlias = Mapping[type[Primitive], Emitter]

ELEMENTWISE: Emitters = {
    Fill: _fill,
    Copy: _copy,
    ScaleAdd: _scale_add,
    Repack: _repack,
    Windows: _windows,
    WinogradInput: _winograd,
    WinogradFilter: _winograd,
    WinogradOutput: _winograd,
}


def emitter_of(
    primitive: Primitive, emitters: Emitters, target: str, beside: tuple[type[Primitive], ...] = ()
) -> Emitter:
    """The emitter of a primitive. Raises ProgramError, which lists the target's primitives,
    including those `beside` that it emits in another way.
    """
    found = emitters.get(type(primitive))
    if found is None:
        known = ", ".join(sorted(kind.name for kind in (*beside, *emitters)))
        raise ProgramError(
            f"target {target} has no primitive {primitive.name!r}", fix=f"it has {known}"
        )
    return found
