"""Calls of micro-kernels: where the operands of one product begin, and how far apart rows are."""

from __future__ import annotations

from tilewright.codegen.c.elementwise_calls import CallContext
from tilewright.common.expr import Const, substitute
from tilewright.targets.host.emit.products import Product


def emit_product_call(
    one: Product, loops: tuple[str, ...], name: str, context: CallContext
) -> None:
    """Write the call of micro-kernel `name` for the product of all iterations of `loops`."""
    zeros = dict.fromkeys(loops, Const(0))
    arguments = [context.c(e) for e in one.extents]
    for side in (one.a, one.b, one.c):
        offset, leading = side.place
        arguments += [context.pointer(side.view, substitute(offset, zeros)), context.c(leading)]
    form = (one.a if one.kernel.vectorised == "n" else one.b).form
    if one.kernel.runs and form.runs is not None:
        gap = form.runs.distance_elements - form.runs.length * form.leading_dimension
        arguments += [context.c(form.runs.length), context.c(gap)]
    if one.c.form.runs is not None:
        runs = one.c.form.runs
        gap = runs.distance_elements - runs.length * one.c.form.leading_dimension
        arguments += [context.c(gap), context.c(runs.first)]
    if one.kernel.start == "either":
        arguments.append(context.c(one.first))
    finished: list[str] = []
    if one.kernel.epilogue:
        finished = [context.c(one.last), *(context.place(*given) for given in one.given)]
    if one.links.count == 1:
        context.writer.call(name, arguments + finished)
        return
    scalar, vector = one.links.a, one.links.b
    if one.kernel.vectorised == "m":
        scalar, vector = vector, scalar
    with context.writer.block():
        for operand, offsets in (("scalar", scalar), ("vector", vector)):
            fixed = "static " if all(isinstance(o, Const) for o in offsets) else ""
            head = f"{fixed}const long {operand}_offsets[{len(offsets)}]"
            context.writer.array(head, [context.c(o) for o in offsets])
        arguments += [str(one.links.count), "scalar_offsets", "vector_offsets", *finished]
        context.writer.call(name, arguments)
