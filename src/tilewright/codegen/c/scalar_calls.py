"""Calls of the primitives that compute an expression per element, written as inline loops.

In: a call of `map` or `reduce` on views. Out: loops that compute in double precision and round once
per call, as the primitives are defined. A `map` of integers computes in an unsigned type at least
as wide, where they wrap. All targets whose cores run C write them alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import isinf

from tilewright.codegen.c import loop_nest
from tilewright.codegen.c.elementwise_calls import CallContext, Emitters, common_loops
from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Expr
from tilewright.ir.loop_axes import Loop
from tilewright.ir.nodes import Call, Program, View
from tilewright.ir.primitives import Fill, Map, Reduce, ScalarPrimitive
from tilewright.ir.scalar import c_converted, c_real, c_text, c_text_of_integers
from tilewright.ir.visit import walk


def _pointers(views: tuple[View, ...], context: CallContext) -> list[str]:
    """Declare a pointer to the first element of each view; returns the pointers' names."""
    names = ["tw_to", *(f"tw_from{i}" for i in range(len(views) - 1))]
    for name, view in zip(names, views, strict=True):
        kind = dtype(context.element_type(view)).c_name
        const = "" if name == "tw_to" else "const "
        place = context.pointer(view, loop_nest.view_offset(view))
        context.writer.line(f"{const}{kind} *const {name} = {place};")
    return names


def _nested(loops: tuple[Loop, ...], first: int, context: CallContext) -> ExitStack:
    """Open the loops, to be closed by the caller; their counters are numbered from `first`."""
    stack = ExitStack()
    for i, loop in enumerate(loops, first):
        at, extent = f"tw_at{i}", context.c(loop.extent)
        stack.enter_context(context.writer.block(f"for ({at} = 0; {at} < {extent}; {at}++)"))
    return stack


def _at(pointer: str, number: int, loops: tuple[Loop, ...], context: CallContext) -> str:
    """The element of operand `number` at the current iteration."""
    terms = [
        _term(f"tw_at{i}", loop.strides[number], context)
        for i, loop in enumerate(loops)
        if loop.strides[number] != Const(0)
    ]
    return f"{pointer}[{' + '.join(terms) or '0'}]"


def _term(at: str, stride: Expr, context: CallContext) -> str:
    if stride == Const(1):
        return at
    text = context.c(stride)
    return f"{at} * {text if text.isalnum() else f'({text})'}"


def _counters(count: int, context: CallContext) -> None:
    if count:
        context.writer.line(f"long {', '.join(f'tw_at{i}' for i in range(count))};")


def _map(mapping: Map, views: tuple[View, ...], context: CallContext) -> None:
    loops = common_loops(views, mapping)
    with context.writer.block():
        to, *sources = _pointers(views, context)
        _counters(len(loops), context)
        kind = dtype(context.element_type(views[0]))
        with _nested(loops, 0, context):
            operands = [_at(name, i, loops, context) for i, name in enumerate(sources, 1)]
            value = _value(mapping, operands, [context.element_type(x) for x in views[1:]])
            if kind.is_float or (mapping.in_floats and mapping.dtype is not None):
                value = c_converted(value, kind)
            else:
                value = f"({kind.c_name}){value}"
            context.writer.line(f"{_at(to, 0, loops, context)} = {value};")


def _value(mapping: Map, operands: Sequence[str], kinds: Sequence[str]) -> str:
    """The expression over operands given as C texts of elements of these types."""
    if mapping.in_floats or mapping.dtype is None:
        reals = map(c_real, operands, map(dtype, kinds))
        return c_text(mapping.scalar, tuple(reals))
    own = dtype(mapping.dtype)
    return f"({own.c_name}){c_text_of_integers(mapping.scalar, operands, own)}"


def _reduce(reduction: Reduce, views: tuple[View, ...], context: CallContext) -> None:
    y, x = views
    axes = loop_nest.view_axes(x)
    gathered = loop_nest.merge_loops(
        loop_nest.match_axes("k", ([], axes.get("k", [])), reduction.name)
    )
    kept = common_loops((y, x), reduction, beside="k")
    loops = (*kept, *gathered)
    with context.writer.block():
        to, source = _pointers(views, context)
        _counters(len(loops), context)
        kind = dtype(context.element_type(y)).c_name
        result = _at(to, 0, kept, context)
        with _nested(kept, 0, context):
            context.writer.line(f"double tw_sum = {result};")
            with _nested(gathered, len(kept), context):
                element = f"(double){_at(source, 1, loops, context)}"
                value = c_text(reduction.scalar, [element])
                context.writer.line(_gathering(reduction, value))
            context.writer.line(f"{result} = ({kind})tw_sum;")


def _gathering(reduction: Reduce, value: str) -> str:
    if reduction.function != "max":
        return f"tw_sum {'+' if reduction.function == 'sum' else '*'}= {value};"
    return f"tw_sum = tw_sum < {value} ? {value} : tw_sum;"


SCALAR_CALLS: Emitters = {Map: _map, Reduce: _reduce}


def has_expressions(program: Program) -> bool:
    """True if the program's code needs functions or INFINITY of `<math.h>`."""
    found = (stmt.primitive for stmt in walk(program.body) if isinstance(stmt, Call))
    return any(
        isinstance(p, ScalarPrimitive) or (isinstance(p, Fill) and isinf(p.value)) for p in found
    )
