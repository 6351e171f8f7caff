"""Calls of Winograd's transforms on operands in place: the function and its epilogue.

In: a call on tiles of tensors whose innermost dimension is the channels. Out: a call of a function
of `transform_text`, or none for operands of other layouts, which are left to the primitives for any
layout.
"""

from __future__ import annotations

from collections.abc import Collection

from tilewright.codegen.c.elementwise_calls import CallContext
from tilewright.codegen.c.loop_nest import view_offset
from tilewright.codegen.c.winograd_text import transform_name
from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Expr, product
from tilewright.ir.matrix import as_view
from tilewright.ir.nodes import Call, Program, Tile, View
from tilewright.ir.primitives import WinogradInput, WinogradOutput
from tilewright.targets.host.emit.kernel_epilogue import (
    NO_BORDER,
    PLAIN,
    KernelEpilogue,
    arguments_of,
)
from tilewright.targets.host.vectors.epilogue import PLAIN_SUMS
from tilewright.targets.host.vectors.instruction_sets import InstructionSet
from tilewright.targets.host.vectors.microkernel import LINE_BYTES
from tilewright.targets.host.vectors.transform_text import Direction, LineTransform

_PIXELS, _POINTS = "rcqp", "xtqp"


def transform_of(
    call: Call,
    program: Program,
    isa: InstructionSet,
    epilogue: KernelEpilogue = PLAIN,
    past: Collection[str] = (),
) -> LineTransform | None:
    """The function that computes a call, None if there is none for its operands. Results in tensors
    named in `past` are stored non-temporally, past the caches; points only if they are whole lines.
    """
    direction: Direction
    match call.primitive:
        case WinogradInput():
            direction = "input"
        case WinogradOutput():
            direction = "output"
        case _:
            return None
    tiles = [o for o in call.operands if isinstance(o, Tile)]
    if len(tiles) < len(call.operands) or not all(_runs_along_channels(t) for t in tiles):
        return None
    pixels, points = tiles if direction == "output" else tiles[::-1]
    if not (set(pixels.roles) <= {*_PIXELS, "."} and set(points.roles) <= {*_POINTS, "."}):
        return None
    kind = dtype(program.tensor(tiles[0].tensor).dtype)
    which = call.primitive.finite_points
    name = f"tw_transform_{direction}_{transform_name(which)}_{kind}"
    finish = epilogue.finish if direction == "output" else PLAIN_SUMS
    streams = isa.streams and tiles[0].tensor in past
    if direction == "input":
        streams = streams and _in_whole_lines(points, program)
        name += "_past" if streams else ""
    return LineTransform(name, direction, which, kind, isa.lanes(kind), finish, streams)


def _in_whole_lines(points: Tile, program: Program) -> bool:
    """True if the channels of each point begin and end with a line of memory."""
    tensor, channels = program.tensor(points.tensor), points.ranges[-1]
    line = LINE_BYTES // dtype(tensor.dtype).size_bytes
    lengths = tensor.shape[-1], channels.start, channels.extent
    return all(isinstance(e, Const) and e.value % line == 0 for e in lengths)


def _runs_along_channels(tile: Tile) -> bool:
    """True if the channels are the last dimension, each role has one dimension, and all steps are
    1.
    """
    roles = [role for role in tile.roles if role != "."]
    once = len(set(roles)) == len(roles)
    return once and tile.roles.endswith("p") and all(r.step == Const(1) for r in tile.ranges)


def emit_transform_call(
    call: Call, one: LineTransform, context: CallContext, epilogue: KernelEpilogue = PLAIN
) -> None:
    """Write the call of transform `one`."""
    first, second = (as_view(o, context.program) for o in call.operands)
    pixels, points = (first, second) if one.direction == "output" else (second, first)
    extents = [_extent(points, role) for role in "tqp"]
    border = epilogue.border if one.direction == "output" else NO_BORDER
    left = [
        _pixels_to_border(pixels, "r", border.bottom),
        _pixels_to_border(pixels, "c", border.right),
    ]
    arguments = [context.c(e) for e in (*extents, *left)]
    for view, roles in ((pixels, "rcq"), (points, "xtq")):
        arguments.append(context.pointer(view, view_offset(view)))
        arguments += [context.c(_stride(view, role)) for role in roles]
    given = arguments_of(call.operands[0], one.epilogue, context.program, view_offset(first))
    context.writer.call(one.name, arguments + [context.place(*each) for each in given])


def _extent(view: View, role: str) -> Expr:
    return view.ranges[view.roles.index(role)].extent if role in view.roles else Const(1)


def _stride(view: View, role: str) -> Expr:
    return product(view.shape[view.roles.index(role) + 1 :]) if role in view.roles else Const(0)


def _pixels_to_border(view: View, role: str, border: int) -> Expr:
    """Pixels from the first of a view to the end of the image, where the border begins."""
    place = view.roles.index(role)
    return view.shape[place] - border - view.ranges[place].start
