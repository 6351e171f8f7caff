"""C for a Duo core: an explicit program in, one source out.

Loops and conditions stand as they are; a call becomes loops over its axes on the elements of its
operands, and a product is refused unless its factors come from the two memories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from tilewright.codegen.artifact import TensorInfo
from tilewright.codegen.c.expression import Scope, bounds_of, c_expression
from tilewright.codegen.c.names import Naming
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, evaluate, product
from tilewright.ir.nodes import Barrier, Call, For, If, Program, Stmt, Transfer, View, Wait
from tilewright.ir.primitives import Copy, Fill, MatrixProduct, Requantise, ScaleAdd
from tilewright.ir.regions import strides_of

_ROUNDINGS = ("even", "half_up", "floor", "zero")


_ONE_CORE = Scope({"rid": "0", "cid": "0"}, {"rid": (0, 0), "cid": (0, 0)})


@dataclass(frozen=True)
class _Context:
    """Output lines, their place, and the symbols in sight."""

    program: Program
    naming: Naming
    writer: CWriter
    scope: Scope = _ONE_CORE

    def c(self, e: Expr) -> str:
        return c_expression(e, self.scope)

    def slot(self, buffer: str, slot: Expr) -> str:
        elements = int(evaluate(self.program.buffer(buffer).elements, {}))
        return f"({self.naming.buffers[buffer]} + {self.c(slot * elements)})"


def emit_source(
    program: Program, naming: Naming, tensors: Sequence[TensorInfo], capacity: Mapping[str, int]
) -> str:
    """The source of a program; `capacity` has the bytes of the core's memories."""
    writer = CWriter()
    context = _Context(program, naming, writer)
    writer.line('#include "duo.h"')
    writer.line()
    for name, size in capacity.items():
        writer.line(f"static _Alignas(64) char duo_{name}[{size}];")
    writer.line()
    parameters = [f"{dtype(t.dtype).c_name} *{t.identifier}" for t in tensors]
    writer.head(f"int {naming.artifact}", parameters or ["void"])
    with writer.block():
        _declarations(context)
        _body(program.body, context)
        writer.line("return duo_error ? duo_error : duo_count != 0;")
    return writer.text()


def _declarations(context: _Context) -> None:
    program, naming, writer = context.program, context.naming, context.writer
    for tensor in (t for t in program.tensors if t.storage):
        kind = dtype(tensor.dtype).c_name
        writer.line(
            f"{kind} *const {naming.tensors[tensor.name]} = {naming.tensors[tensor.memory]};"
        )
    for b in program.buffers:
        kind, place = dtype(b.dtype).c_name, f"duo_{b.space} + {b.offset_bytes}"
        writer.line(f"{kind} *const {naming.buffers[b.name]} = ({kind} *)({place});")
    for space in dict.fromkeys(b.space for b in program.buffers):
        writer.line(f"memset(duo_{space}, 0x5a, sizeof duo_{space}); /* nobody has written it */")
    writer.line("duo_count = duo_error = 0;")


def _body(body: tuple[Stmt, ...], context: _Context) -> None:
    for stmt in body:
        _statement(stmt, context)


def _statement(stmt: Stmt, context: _Context) -> None:
    writer = context.writer
    match stmt:
        case For(var, extent, body):
            name, last = context.naming.variables[var], bounds_of(extent, context.scope)[1] - 1
            inner = context.scope.with_symbol(var, name, (0, max(last, 0)))
            head = f"for (long {name} = 0; {name} < {context.c(extent)}; {name}++)"
            with writer.block(head):
                _body(body, replace(context, scope=inner))
        case If(condition, then, orelse):
            with writer.block(f"if ({context.c(condition)})"):
                _body(then, context)
            if orelse:
                with writer.block("else"):
                    _body(orelse, context)
        case Transfer():
            _transfer(stmt, context)
        case Wait(buffer, slot):
            writer.line(f"duo_wait({context.slot(buffer, slot)});")
        case Call():
            _call(stmt, context)
        case Barrier():
            writer.comment("one core: it has arrived")
        case _:
            assert_never(stmt)


def _transfer(stmt: Transfer, context: _Context) -> None:
    """The region's extents and strides, outermost first, and where it starts."""
    tensor = context.program.tensor(stmt.tensor)
    size, strides = dtype(tensor.dtype).size_bytes, strides_of(tensor.shape)
    start: Expr = Const(0)
    for r, stride in zip(stmt.ranges, strides, strict=True):
        start = start + r.start * stride
    slot = context.slot(stmt.buffer, stmt.slot)
    extents = ", ".join(context.c(r.extent) for r in stmt.ranges)
    steps = ", ".join(
        context.c(r.step * stride * size) for r, stride in zip(stmt.ranges, strides, strict=True)
    )
    memory = f"(char *)({context.naming.tensors[stmt.tensor]} + {context.c(start)})"
    fields = [f".slot = {slot}", f".local = (char *){slot}", f".memory = {memory}"]
    fields += [f".size = {size}", f".extent = {{{extents}}}", f".stride = {{{steps}}}"]
    fields += [f".rank = {len(stmt.ranges)}", f".is_get = {int(stmt.direction == 'get')}"]
    context.writer.call("duo_start", [f"(struct duo_transfer){{{', '.join(fields)}}}"])


def _call(stmt: Call, context: _Context) -> None:
    views = tuple(o for o in stmt.operands if isinstance(o, View))
    if len(views) < len(stmt.operands):
        raise ProgramError(f"{stmt.primitive.name} works on tensors in main memory")
    axes = {letter: _extent(letter, views) for letter in _letters(views)}
    heads = [
        f"for (long {_index(a)} = 0; {_index(a)} < {context.c(e)}; {_index(a)}++)"
        for a, e in axes.items()
    ]
    places = [_element(view, context) for view in views]
    with context.writer.block(" ".join(heads)):
        for line in _lines(stmt, views, places, context):
            context.writer.line(line)


def _lines(
    stmt: Call, views: tuple[View, ...], places: list[str], context: _Context
) -> Iterator[str]:
    """Lines for one combination of indices."""
    y, *xs = places
    kind = dtype(context.program.element_type(views[0]))
    match stmt.primitive:
        case MatrixProduct():
            spaces = [context.program.buffer(v.buffer).space for v in views]
            if spaces != ["neuron", "synapse", "neuron"]:
                raise ProgramError(f"a Duo multiplies synapses by neurons, found {spaces[1:]}")
            yield f"{y} += ({kind.c_name}){xs[0]} * {xs[1]};"
        case Fill(value):
            yield f"{y} = {int(value)};"
        case Copy():
            yield f"{y} = {xs[0]};"
        case ScaleAdd(alpha, beta):
            terms = "".join(f" + {int(beta)} * {x}" for x in xs)
            yield f"{y} = {int(alpha)} * {y}{terms};"
        case Requantise(shift, rounding, saturate):
            yield f"long value = duo_round({xs[0]}, {shift}, {_ROUNDINGS.index(rounding)});"
            low, high = kind.limits
            if saturate:
                yield f"value = value < {low} ? {low} : value > {high} ? {high} : value;"
            yield f"{y} = ({kind.c_name})value;"
        case other:
            raise ProgramError(f"a Duo has no primitive {other.name!r}")


def _letters(views: tuple[View, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(a for view in views for a in view.roles if a != "."))


def _index(letter: str) -> str:
    return f"at_{letter}"


def _extent(letter: str, views: tuple[View, ...]) -> Expr:
    """The extent of an axis: all dimensions of that letter together."""
    view = next(v for v in views if letter in v.roles)
    pairs = zip(view.roles, view.ranges, strict=True)
    return product(r.extent for role, r in pairs if role == letter)


def _element(view: View, context: _Context) -> str:
    """The element of an operand at the indices of all axes."""
    terms, below = [context.slot(view.buffer, view.slot)], dict[str, Expr]()
    dimensions = list(zip(view.roles, view.ranges, strides_of(view.shape), strict=True))
    for role, r, stride in reversed(dimensions):
        inner = below.get(role, Const(1))
        below[role] = inner * r.extent
        index = f"{_index(role)} / ({context.c(inner)}) % ({context.c(r.extent)})"
        moving = f" + ({index}) * ({context.c(r.step)})" if r.extent != Const(1) else ""
        terms.append(f"({context.c(r.start)}{moving}) * ({context.c(stride)})")
    return f"*({' + '.join(terms)})"
