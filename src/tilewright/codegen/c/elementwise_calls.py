"""Calls of the elementwise primitives: which C function, with which pointers, extents and strides.

In: a call on views of buffers, or of tensors that are used in place. Out: the call of a function of
`elementwise_text`. Every target whose cores run C writes these calls alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.codegen.c.expression import Scope, c_expression
from tilewright.codegen.c.loop_nest import (
    Axes,
    Axis,
    Loop,
    match_axes,
    merge_loops,
    padded,
    view_axes,
    view_offset,
)
from tilewright.codegen.c.names import Naming
from tilewright.codegen.c.requantise_text import Requantisation
from tilewright.codegen.c.winograd_text import transform_name
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, evaluate, product
from tilewright.common.fixed_point import rounding_called
from tilewright.ir.nodes import Call, Program, View
from tilewright.ir.winograd import KERNEL_POINTS, points_of


@dataclass(frozen=True)
class CallContext:
    """What writing a call needs to know."""

    program: Program
    naming: Naming
    scope: Scope
    writer: CWriter

    def c(self, e: Expr) -> str:
        """An expression as C."""
        return c_expression(e, self.scope)

    def pointer(self, view: View, offset: Expr) -> str:
        """The address `offset` elements into the slot, or into the tensor that is used in place."""
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
        """The name of the element type of what the view is of."""
        if view.buffer in self.naming.buffers:
            return dtype(self.program.buffer(view.buffer).dtype).name
        return dtype(self.program.tensor(view.buffer).dtype).name

    def function(self, stem: str, view: View) -> str:
        """The variant of a function for the view's element type."""
        return f"{stem}_{self.element_type(view)}"


def check_element_types(call: Call, views: tuple[View, ...], context: CallContext) -> None:
    """Raise ProgramError unless all operands have one element type, or the call changes it."""
    types = {context.element_type(v) for v in views}
    if len(types) > 1 and call.primitive != "requantise":
        raise ProgramError(f"{call.primitive} mixes element types {', '.join(sorted(types))}")


def _number(call: Call, name: str, default: float) -> str:
    value = float(call.attribute(name, default))
    if value != value or value in (float("inf"), float("-inf")):
        raise ProgramError(f"{call.primitive}: {name} is {value}", fix="give a finite number")
    return repr(value)


def _letters(view: View) -> tuple[str, ...]:
    return tuple(dict.fromkeys(letter for letter in view.roles if letter != "."))


def _write_loops(loops: tuple[Loop, ...], operands: tuple[str, ...], context: CallContext) -> None:
    """The arrays `count` and `<operand>_stride` of the nest."""
    context.writer.array("const long count[TW_LOOPS]", [context.c(loop.extent) for loop in loops])
    for i, name in enumerate(operands):
        strides = [context.c(loop.strides[i]) for loop in loops]
        context.writer.array(f"const long {name}_stride[TW_LOOPS]", strides)


def _nest(views: tuple[View, ...], primitive: str) -> tuple[Loop, ...]:
    axes = [view_axes(v) for v in views]
    loops: list[Loop] = []
    for letter in _letters(views[0]):
        loops += match_axes(letter, tuple(a.get(letter, []) for a in axes), primitive)
    for i, mine in enumerate(axes[1:], 1):
        extra = [a for a in mine if mine[a] and a not in axes[0]]
        if extra:
            raise ProgramError(
                f"{primitive}: operand {i} has axis {extra[0]!r}, the result has not"
            )
    return padded(merge_loops(loops), len(views), primitive)


def _fill(call: Call, views: tuple[View, ...], context: CallContext) -> None:
    (y,) = views
    with context.writer.block():
        _write_loops(_nest(views, "fill"), ("y",), context)
        arguments = [context.pointer(y, view_offset(y)), "count", "y_stride"]
        arguments.append(_number(call, "value", 0.0))
        context.writer.call(context.function("tw_fill", y), arguments)


def _copy(call: Call, views: tuple[View, ...], context: CallContext) -> None:
    y, x = views
    axes = view_axes(y), view_axes(x)
    for letter in axes[0]:
        if bool(axes[0][letter]) != bool(axes[1].get(letter)):
            raise ProgramError(f"the operands of copy disagree about axis {letter!r}")
    with context.writer.block():
        _write_loops(_nest(views, "copy"), ("y", "x"), context)
        pointers = [context.pointer(v, view_offset(v)) for v in (y, x)]
        arguments = [*pointers, "count", "y_stride", "x_stride"]
        context.writer.call(context.function("tw_copy", y), arguments)


def requantisation(call: Call, program: Program) -> Requantisation:
    """The function that a call of `requantise` is."""
    result, sums = (dtype(program.element_type(operand)) for operand in call.operands)
    rounding = rounding_called(str(call.attribute("rounding", "even")))
    return Requantisation(sums, result, rounding, bool(call.attribute("saturate", 1)))


def _requantise(call: Call, views: tuple[View, ...], context: CallContext) -> None:
    with context.writer.block():
        _write_loops(_nest(views, "requantise"), ("y", "x"), context)
        pointers = [context.pointer(v, view_offset(v)) for v in views]
        shift = str(int(call.attribute("shift", 0)))
        arguments = [*pointers, "count", "y_stride", "x_stride", shift]
        context.writer.call(requantisation(call, context.program).name, arguments)


def _scale_add(call: Call, views: tuple[View, ...], context: CallContext) -> None:
    y = views[0]
    alpha = _number(call, "alpha", 1.0)
    for x in views[1:] or (y,):
        beta = _number(call, "beta", 1.0) if len(views) > 1 else "0.0"
        with context.writer.block():
            _write_loops(_nest((y, x), "scale_add"), ("y", "x"), context)
            pointers = [context.pointer(v, view_offset(v)) for v in (y, x)]
            arguments = [*pointers, "count", "y_stride", "x_stride", alpha, beta]
            context.writer.call(context.function("tw_scale_add", y), arguments)
        alpha = "1.0"


def _repack(call: Call, views: tuple[View, ...], context: CallContext) -> None:
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


def _winograd(call: Call, views: tuple[View, ...], context: CallContext) -> None:
    """The transforms of one tile of points, repeated over tiles and all further axes."""
    y, x = views
    transforms = points_of(dict(call.attributes))
    tile = int(call.attribute("output_tile", 0))
    points = tile + KERNEL_POINTS - 1
    axes = [view_axes(y), view_axes(x)]
    spatial, flat = (1, 0) if call.primitive != "winograd_output" else (0, 1)
    sides = {"winograd_input": points, "winograd_filter": KERNEL_POINTS, "winograd_output": tile}
    grid = _grid(axes[spatial], views[spatial], sides[call.primitive], call.primitive)
    plane = _plane(axes[flat].pop("x", []), points, call.primitive)
    tiles = axes[flat].pop("t", [])
    steps = [Axis(product(a.extent for a in tiles), grid[1] * tile)] if tiles else []
    pair = (tiles, steps) if flat == 0 else (steps, tiles)
    loops = match_axes("t", pair, call.primitive)
    for letter in dict.fromkeys((*axes[0], *axes[1])):
        loops += match_axes(
            letter, (axes[0].get(letter, []), axes[1].get(letter, [])), call.primitive
        )
    nest = padded(merge_loops(loops), 2, call.primitive)
    y_point, x_point = (plane, grid) if flat == 0 else (grid, plane)
    with context.writer.block():
        _write_loops(nest, ("y", "x"), context)
        arguments = [context.pointer(v, view_offset(v)) for v in (y, x)]
        arguments += ["count", "y_stride", "x_stride"]
        arguments += [context.c(e) for e in (*y_point, *x_point)]
        stem = f"tw_{call.primitive}_{transform_name(transforms)}"
        context.writer.call(context.function(stem, y), arguments)


def _grid(axes: Axes, view: View, side: int, primitive: str) -> tuple[Expr, Expr]:
    """Row and column stride of the points in space; takes those axes out."""
    rows, columns = axes.pop("r", []), axes.pop("c", [])
    if len(rows) != 1 or len(columns) != 1 or rows[0].extent != Const(side):
        raise ProgramError(
            f"{primitive}: {view.buffer!r} must have {side} rows and one column axis"
        )
    return rows[0].stride, columns[0].stride


def _plane(axes: list[Axis], points: int, primitive: str) -> tuple[Expr, Expr]:
    """Row and column stride of the transformed points, which are one axis or two."""
    match axes:
        case [Axis(Const(n), stride)] if n == points * points:
            return stride * points, stride
        case [Axis(Const(r), row), Axis(Const(c), column)] if r == c == points:
            return row, column
        case _:
            raise ProgramError(f"{primitive}: axis 'x' must have {points} x {points} points")


Emitter = Callable[[Call, tuple[View, ...], CallContext], None]

ELEMENTWISE: Mapping[str, Emitter] = {
    "fill": _fill,
    "copy": _copy,
    "requantise": _requantise,
    "scale_add": _scale_add,
    "repack": _repack,
    "winograd_input": _winograd,
    "winograd_filter": _winograd,
    "winograd_output": _winograd,
}
"""How the call of each primitive is written; raises ProgramError for operands it does not take."""
