"""Calls of micro-kernels: where the operands of one product begin, and how far apart rows are."""

from __future__ import annotations

from tilewright.common.expr import Const, Expr, product
from tilewright.targets.elementwise_calls import CallContext
from tilewright.targets.host.products import Product, Side, packed_shape


def emit_product_call(one: Product, name: str, context: CallContext) -> None:
    """Write the call of micro-kernel `name`."""
    arguments = [context.c(e) for e in one.extents]
    for side in (one.a, one.b, one.c):
        offset, leading = _place(side)
        arguments += [context.pointer(side.view, offset), context.c(leading)]
    context.writer.call(name, arguments)


def _place(side: Side) -> tuple[Expr, Expr]:
    """(elements to the operand's first, leading dimension)."""
    if side.panels is None:
        return side.form.offset_elements, side.form.leading_dimension
    view, panels = side.view, side.panels
    outside, matrix = packed_shape(view.shape, panels)
    indices = [r.start for d, r in enumerate(view.ranges) if d not in (panels.across, panels.depth)]
    offset: Expr = Const(0)
    for d, index in enumerate(indices):
        offset = offset + index * product(outside[d + 1 :])
    depth = view.shape[panels.depth]
    offset = offset * matrix + view.ranges[panels.across].start * depth
    return offset + view.ranges[panels.depth].start * panels.width, depth * panels.width
