"""Calls of tensorised primitives: which C function, with which pointers, extents and strides
(swATOP 4.1).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from tilewright.codegen.c.elementwise_calls import (
    ELEMENTWISE,
    CallContext,
    Emitters,
    check_element_types,
    emitter_of,
)
from tilewright.codegen.c.expression import Scope, bounds_of
from tilewright.codegen.c.scalar_calls import SCALAR_CALLS, emit_multiply_accumulate
from tilewright.codegen.c.winograd_text import TILES_OF_CORES
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import BinaryExpr, Const, Expr, evaluate, minimum, product
from tilewright.ir.chains import Chain
from tilewright.ir.matrix import matrix_form
from tilewright.ir.nodes import Call, View
from tilewright.ir.primitives import (
    Map,
    MatrixProduct,
    MultiplyAccumulate,
    Reduce,
    Repack,
    WinogradTransform,
)
from tilewright.ir.winograd import TEXTBOOK_POINTS
from tilewright.targets.sw26010.calls.expressions import emit_map, emit_reduce

_VECTOR_DIMENSIONS = {"m": "VECTOR_M", "n": "VECTOR_N"}
_ORDERS = {"row": "ROW_MAJOR", "column": "COLUMN_MAJOR"}


def emit_call(call: Call, context: CallContext) -> None:
    """Write one call; raises ProgramError for operands that the primitive does not take."""
    views = _views(call)
    check_element_types(call.primitive, views, context)
    emit = emitter_of(call.primitive, EMITTERS, "sw26010")
    if isinstance(call.primitive, WinogradTransform):
        _check_points(call.primitive)
    emit(call.primitive, views, context)


def _views(call: Call) -> tuple[View, ...]:
    views = []
    for operand in call.operands:
        if not isinstance(operand, View):
            raise ProgramError(
                f"{call.primitive.name} works on tensor {operand.tensor!r} in main memory",
                fix="stage its operands in the scratchpad first",
            )
        views.append(operand)
    return tuple(views)


def _check_points(transform: WinogradTransform) -> None:
    """The cores' library has transforms for some points only."""
    tile, given = transform.output_tile, transform.points
    points = TEXTBOOK_POINTS.get(tile, "") if given is None else given
    if points in TILES_OF_CORES:
        return
    which = "" if given is None else f"points are {points[:60]!r}"
    raise ProgramError(
        f"{transform.name}: {which or f'output_tile is {tile}'}",
        fix="use those of the textbook" if which else "use 2 or 4",
    )


def _extent(view: View, role: str) -> Expr:
    pairs = zip(view.roles, view.ranges, strict=True)
    return product(r.extent for letter, r in pairs if letter == role)


def _product(multiply: MatrixProduct, views: tuple[View, ...], context: CallContext) -> None:
    c, a, b = views
    m, n, k = _extent(c, "m"), _extent(c, "n"), _extent(a, "k")
    forms = (matrix_form(a, "m", "k"), matrix_form(b, "k", "n"), matrix_form(c, "m", "n"))
    arguments = [context.c(e) for e in (m, n, k)]
    for scalar, view, form in zip(("1.0", "", "1.0"), (a, b, c), forms, strict=True):
        arguments += [scalar] if scalar else []
        arguments.append(context.pointer(view, form.offset_elements))
        arguments.append(context.c(form.leading_dimension))
    arguments.append(_VECTOR_DIMENSIONS[multiply.along])
    arguments += [_ORDERS[form.order] for form in forms]
    workspace = multiply.workspace
    arguments.append("0" if workspace is None else context.naming.buffers[workspace])
    context.writer.call(context.function("spm_gemm", c), arguments)


def emit_chain(chain: Chain, context: CallContext) -> None:
    """Write the list of a chain's pairs and the call that takes it."""
    c, a, b = views = _views(chain.call)
    check_element_types(chain.multiply, views, context)
    forms = (matrix_form(a, "m", "k"), matrix_form(b, "k", "n"), matrix_form(c, "m", "n"))
    writer, links = context.writer, int(evaluate(chain.links, {}))
    with writer.block(""):
        writer.line(f"const {dtype(context.element_type(c)).c_name} *tw_pairs[{2 * links}];")
        writer.line("int tw_link = 0;")
        with ExitStack() as loops:
            inner = context
            for loop in chain.loops:
                name = context.naming.variables[loop.var]
                count = int(evaluate(loop.extent, {}))
                head = f"for ({name} = 0; {name} < {count}; {name}++)"
                loops.enter_context(writer.block(head))
                scope = inner.scope.with_symbol(loop.var, name, (0, count - 1))
                inner = replace(inner, scope=scope)
            for view, form in zip((a, b), forms, strict=False):
                writer.line(f"tw_pairs[tw_link++] = {inner.pointer(view, form.offset_elements)};")
        m, n, k = (context.c(e) for e in (_extent(c, "m"), _extent(c, "n"), _extent(a, "k")))
        leading = [context.c(form.leading_dimension) for form in forms]
        arguments = [str(links), m, n, k, "tw_pairs", *leading[:2]]
        arguments += [context.pointer(c, forms[2].offset_elements), leading[2]]
        arguments.append(_VECTOR_DIMENSIONS[chain.multiply.along])
        arguments += [_ORDERS[form.order] for form in forms]
        writer.call(context.function("spm_gemm_chain", c), arguments)


def _repack(_: Repack, views: tuple[View, ...], context: CallContext) -> None:
    """Repack rows to another length, one call for each dimension that changes. Those that shrink
    come first, so that the tile never takes more room than before or after.
    """
    target, source = views
    if len(target.shape) != len(source.shape) or target.buffer != source.buffer:
        raise ProgramError(
            "repack changes the shape of one tile in its slot: two shapes of one rank"
        )
    tile = context.pointer(target, Const(0))
    pairs = zip(target.shape, source.shape, strict=True)
    kept = tuple(_smaller(*pair, context.scope) for pair in pairs)
    for new_shape, old_shape in ((kept, source.shape), (target.shape, kept)):
        for d in reversed(range(len(new_shape))):
            if new_shape[d] == old_shape[d]:
                continue
            inner = product(new_shape[d + 1 :])
            rows = (product(old_shape[:d]), new_shape[d] * inner, old_shape[d] * inner)
            arguments = [tile, *map(context.c, rows)]
            context.writer.call(context.function("tw_repack_rows", target), arguments)


def _smaller(one: Expr, other: Expr, scope: Scope) -> Expr:
    """The smaller of two extents; just one of them if that is known to be smaller."""
    for a, b in ((one, other), (other, one)):
        if _bounded(a, b) or bounds_of(a, scope)[1] <= bounds_of(b, scope)[0]:
            return a
    return minimum(one, other)


def _bounded(e: Expr, bound: Expr) -> bool:
    """True if `e` is `bound`, a minimum with it, or the maximum of 0 and one of these."""
    match e:
        case BinaryExpr("max", Const(0), inner) | BinaryExpr("max", inner, Const(0)):
            return _bounded(inner, bound)
        case BinaryExpr("min", a, b):
            return bound in (a, b)
        case _:
            return e == bound


EMITTERS: Emitters = {
    MatrixProduct: _product,
    **ELEMENTWISE,
    **SCALAR_CALLS,
    Map: emit_map,
    Reduce: emit_reduce,
    MultiplyAccumulate: emit_multiply_accumulate,
    Repack: _repack,
}
