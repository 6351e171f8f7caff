"""Calls of sums of windows on operands in place: the function and its arguments.

In: a call on tiles whose innermost dimension is contiguous channels. Out: its `WindowFunction`, and
the call of that function. Operands of other layouts raise ProgramError.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.c.elementwise_calls import CallContext
from tilewright.codegen.c.loop_nest import view_offset
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, evaluate, product
from tilewright.ir.matrix import as_view
from tilewright.ir.nodes import Call, Operand, Program, Tile, View
from tilewright.ir.primitives import WindowSums
from tilewright.machine import Machine
from tilewright.targets.host.cost.stores import whole_bytes
from tilewright.targets.host.emit.kernel_epilogue import (
    PLAIN,
    KernelEpilogue,
    arguments_of,
    writes_result,
)
from tilewright.targets.host.sections import Caches
from tilewright.targets.host.vectors.epilogue import PLAIN_SUMS
from tilewright.targets.host.vectors.instruction_sets import InstructionSet
from tilewright.targets.host.vectors.microkernel import LINE_BYTES
from tilewright.targets.host.vectors.window_text import (
    EVERYWHERE,
    WindowFunction,
    block_pixels,
    is_short,
    row_pixels,
    shares_pixels,
    summed_lines,
)

_NEAR = 1 / 8
"""Share of the level 1 cache for a block's rows of pixels if these are a stream."""


def window_function(
    call: Call,
    program: Program,
    isa: InstructionSet,
    machine: Machine,
    epilogue: KernelEpilogue = PLAIN,
) -> WindowFunction | None:
    """The function that computes a call of sums of windows, None for another primitive.

    Raises ProgramError if the operands' innermost dimensions differ.
    """
    windows = call.primitive
    if not isinstance(windows, WindowSums):
        return None
    y, x, w = (as_view(operand, program) for operand in call.operands)
    channels = _vectors((y, x, w))
    kind = dtype(program.element_type(call.operands[0]))
    column, point, terms = _step(x, "ct"), _step(w, "x"), _extent(x, "k")
    steps, lines = (windows.row_stride, windows.row_step, isa.registers), _extent(y, "u")
    shared = summed_lines(windows.rows, windows.cols, terms, *steps) if lines > 1 else 1
    pixels = block_pixels(isa.registers, shared, windows.rows * windows.cols)
    part, order = _walk(call, program, machine, shared, pixels)
    return WindowFunction(
        kind,
        isa.lanes(kind),
        pixels,
        windows=_extent(y, "t"),
        rows=windows.rows,
        columns=windows.cols,
        terms=terms,
        x_row=_step(x, "r") * windows.row_step,
        x_column=column * windows.col_step,
        x_term=_step(x, "k"),
        x_window=column * windows.stride,
        y_window=_step(y, "t"),
        w_point=point,
        w_term=_step(w, "k"),
        lines=lines,
        x_line=_step(x, "r") * windows.row_stride,
        y_line=_step(y, "u"),
        shares_pixels=shares_pixels(windows.cols, terms, isa.registers),
        summed=1 if part and not is_short(pixels, shared) else shared,
        part=part,
        order=order,
        behind=windows.row_stride // windows.row_step if shared > 1 else 0,
        x_rows=_inside(call.operands[1], "r", program),
        x_columns=_inside(call.operands[1], "c", program),
        whole=isinstance(channels, Const) and channels.value % isa.lanes(kind) == 0,
        epilogue=epilogue.finish if writes_result(call, program) else PLAIN_SUMS,
    )


def _walk(
    call: Call, program: Program, machine: Machine, lines: int, pixels: int
) -> tuple[int, str]:
    """(channels of a part, order of the loops around blocks); a block has the sums of `lines` lines
    with `pixels` pixels each.
    """
    windows, (y, x) = call.primitive, (as_view(o, program) for o in call.operands[:2])
    assert isinstance(windows, WindowSums)
    row = row_pixels(pixels, windows.cols, windows.stride, windows.col_step) * _extent(x, "k")
    if is_short(pixels, lines):
        rows = int(row_pixels(lines, windows.rows, windows.row_stride, windows.row_step))
        elements = int(rows * row) + lines * pixels + windows.rows * windows.cols
        size = dtype(program.element_type(call.operands[1])).size_bytes
        return _near_part(x, machine, size, rows, elements), "cut"
    part = _part(call, program, machine, windows.rows * row)
    apart = lines == 1 and _extent(y, "u") > 1
    afar = apart and _is_narrow(call, program, machine, row * _step(x, "ct"))
    return part, "utc" if afar else "tcu"


def _part(call: Call, program: Program, machine: Machine, pixels: int) -> int:
    """Channels of a part if the pixels, so many per block, are a stream; 0 if they are near."""
    kind = dtype(program.element_type(call.operands[0]))
    caches, lanes = machine.find_section(Caches), machine.core.lanes(kind.name)
    if caches is None or not _is_streamed(call, program, machine, caches):
        return 0
    held = pixels * kind.size_bytes * lanes
    return max(1, int(caches.l1.capacity_bytes * _NEAR // held)) * lanes


def _near_part(x: View, machine: Machine, size: int, rows: int, elements: int) -> int:
    """Channels of a part such that a block's `rows` of pixels stay in the level 1 cache until the
    next rows; 0 if the cache holds all channels of a block, with so many `elements` each.
    """
    caches, channels = machine.find_section(Caches), x.ranges[-1].extent
    if caches is None or not isinstance(channels, Const):
        return 0
    held, line = caches.l1.capacity_bytes // size, LINE_BYTES // size
    if channels.value * elements <= held:
        return 0
    parts = -(-channels.value // max(1, held // (rows * _extent(x, "c"))))
    return -(-channels.value // (parts * line)) * line


def _is_narrow(call: Call, program: Program, machine: Machine, elements: int) -> bool:
    """True if `elements`, a block's part of a row of pixels, are less than a page of an image that
    comes from afar: walking down such columns is no stream.
    """
    caches, kind = machine.find_section(Caches), dtype(program.element_type(call.operands[0]))
    if caches is None or not _is_large(call, program, caches):
        return False
    return elements * kind.size_bytes < caches.pages.page_bytes


def _is_streamed(call: Call, program: Program, machine: Machine, caches: Caches) -> bool:
    """True if the pixels exceed half the level 2 cache, and pixels and results pass through or from
    that cache more slowly than the processor multiplies and adds.
    """
    pixels, windows = call.operands[1], call.primitive
    if not isinstance(pixels, Tile) or not isinstance(windows, WindowSums):
        return False
    tensor, terms = program.tensor(pixels.tensor), _extent(as_view(pixels, program), "k")
    passed = (terms * windows.row_stride * windows.stride + 1) * dtype(tensor.dtype).size_bytes
    behind = caches.l2 if whole_bytes(tensor, {}) > caches.l2.capacity_bytes else caches.l1
    flops = 2 * windows.rows * windows.cols * terms
    added = flops / machine.core.peak_flops_per_cycle(tensor.dtype)
    passes = passed / behind.fill_bytes_per_cycle > added
    return passes and _is_large(call, program, caches)


def _is_large(call: Call, program: Program, caches: Caches) -> bool:
    """True if pixels in place exceed half the level 2 cache."""
    pixels = call.operands[1]
    if not isinstance(pixels, Tile):
        return False
    return bool(whole_bytes(program.tensor(pixels.tensor), {}) > caches.l2.capacity_bytes / 2)


def _vectors(views: Sequence[View]) -> Expr:
    """Extent of the dimension that is innermost in all views. Raises ProgramError without one."""
    letter = views[0].roles[-1]
    for view in views:
        if view.roles[-1] != letter or view.ranges[-1].step != Const(1) or letter in "utrckx":
            raise ProgramError(
                f"window_sums of {view.buffer!r}: its innermost dimension is not that of the "
                "vectors",
                fix="lay it out with the same axis innermost in all operands",
            )
    return views[0].ranges[-1].extent


def emit_window_call(call: Call, one: WindowFunction, name: str, context: CallContext) -> None:
    """Write the call of function `one`."""
    y, x, w = (as_view(operand, context.program) for operand in call.operands)
    arguments = [context.c(y.ranges[-1].extent)]
    arguments += [context.pointer(view, view_offset(view)) for view in (x, w, y)]
    given = arguments_of(call.operands[0], one.epilogue, context.program, view_offset(y))
    context.writer.call(name, arguments + [context.place(*each) for each in given])


def _inside(pixels: Operand, role: str, program: Program) -> range:
    """Range of element offsets from the first pixel, along a dimension, that may be nonzero."""
    d = pixels.roles.index(role)
    start = pixels.ranges[d].start
    if not isinstance(pixels, Tile) or not isinstance(start, Const):
        return EVERYWHERE
    tensor = program.tensor(pixels.tensor)
    before, behind = tensor.zeros_of(tensor.dims[d])
    size = _constant(tensor.shape[d])
    step = _constant(product(tensor.shape[d + 1 :]))
    return range((before - start.value) * step, (size - behind - start.value) * step)


def _extent(view: View, role: str) -> int:
    pairs = zip(view.roles, view.ranges, strict=True)
    return _constant(product(r.extent for letter, r in pairs if letter == role))


def _step(view: View, roles: str) -> int:
    """Elements from one index to the next of the innermost dimension with one of the `roles`."""
    found = [d for d, letter in enumerate(view.roles) if letter in roles]
    return _constant(product(view.shape[found[-1] + 1 :])) if found else 0


def _constant(e: Expr) -> int:
    return int(evaluate(e, {}))
