"""The file that the cores run: an explicit program in, `<name>_slave.c` out (swATOP 4.7).

Each core finds its row and column, takes one scratchpad region for all buffers and runs the
program's loops. A transfer, which a comment describes, adds athread_get or athread_put requests
(swATOP 4.5.1: source, destination, size, block and stride) to the reply word of its buffer slot; a
wait spins until that word counts as many replies. A tensorised primitive is the call of a C
function with pointers, extents and strides (swATOP 4.1). The text is C89 with `long` arithmetic, so
that sw5cc takes it without further flags.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import assert_never

from tilewright.codegen.artifact import BufferInfo
from tilewright.codegen.c.elementwise_calls import (
    ELEMENTWISE,
    CallContext,
    Emitters,
    check_element_types,
    emitter_of,
)
from tilewright.codegen.c.elementwise_text import inline_primitives
from tilewright.codegen.c.expression import Scope, bounds_of, c_expression
from tilewright.codegen.c.scalar_calls import SCALAR_CALLS, has_expressions
from tilewright.codegen.c.winograd_text import TILES_OF_CORES
from tilewright.codegen.c.writer import CWriter
from tilewright.codegen.transfer_plan import TransferPlan, plan_transfer
from tilewright.common.dtypes import FLOATS, dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import BinaryExpr, Const, Expr, Var, evaluate, minimum, product
from tilewright.ir.chains import Chain, with_chains
from tilewright.ir.matrix import matrix_form
from tilewright.ir.nodes import (
    CORE_SYMBOLS,
    SCRATCHPAD,
    Barrier,
    Call,
    For,
    If,
    Program,
    Range,
    Stmt,
    Transfer,
    View,
    Wait,
    role_extent,
)
from tilewright.ir.primitives import MatrixProduct, Reduce, Repack, WinogradTransform
from tilewright.ir.visit import used_symbols, walk
from tilewright.ir.winograd import TEXTBOOK_POINTS
from tilewright.machine import Machine
from tilewright.passes.lowering import lowering_of
from tilewright.targets.sw26010.calls.expressions import (
    MAP_EMITTERS,
    emit_reduce,
    expression_headers,
)
from tilewright.targets.sw26010.dma import check_limits
from tilewright.targets.sw26010.names import LaunchNaming, buffer_end, buffer_infos, core_scope


@dataclass(frozen=True)
class _Context:
    program: Program
    machine: Machine
    naming: LaunchNaming
    writer: CWriter


@dataclass(frozen=True)
class _Request:
    """The operands of one transfer's DMA requests; `block` and `count` are C names or numbers."""

    stmt: Transfer
    plan: TransferPlan
    scope: Scope
    block: Expr
    count: Expr
    size: int

    def c(self, e: Expr) -> str:
        return c_expression(e, self.scope)


def _transfer(stmt: Transfer, scope: Scope, context: _Context) -> None:
    """Write the requests that start one transfer.

    Raises CapacityError for a request that the DMA descriptor cannot hold.
    """
    program, writer = context.program, context.writer
    tensor, buffer = program.tensor(stmt.tensor), program.buffer(stmt.buffer)
    plan = plan_transfer(stmt, tensor, buffer, scope)
    check_limits(plan, tensor, context.machine, scope)
    size = dtype(tensor.dtype).size_bytes
    writer.comment(_description(stmt, plan, size, context.naming, scope))
    with writer.block():
        request = _declare_request(stmt, plan, scope, size, writer)
        _start(request, int(evaluate(buffer.elements, {})), context.naming, writer)


def _declare_request(
    stmt: Transfer, plan: TransferPlan, scope: Scope, size: int, writer: CWriter
) -> _Request:
    """Declare the length `block` in elements and the count `blocks`, unless they are constants."""
    values = []
    for name, value in (("block", plan.blocks.length), ("blocks", plan.blocks.count)):
        if not isinstance(value, Const):
            writer.line(f"const long {name} = {c_expression(value, scope)};")
            scope = scope.with_symbol(f"{name} of a transfer", name, bounds_of(value, scope))
            value = Var(f"{name} of a transfer")
        values.append(value)
    return _Request(stmt, plan, scope, values[0], values[1], size)


def _start(request: _Request, elements: int, naming: LaunchNaming, writer: CWriter) -> None:
    stmt, plan = request.stmt, request.plan
    buffer, tensor = naming.buffers[stmt.buffer], naming.tensors[stmt.tensor]
    slot, start = request.c(stmt.slot), request.c(stmt.slot * elements)
    if not isinstance(stmt.slot, Const):
        writer.line(f"const long slot = {slot};")
        slot, start = "slot", f"slot * {elements}"
    writer.line(f"const long offset = {request.c(plan.offset)};")
    if plan.blocks.outer:
        writer.line(f"long {', '.join(f'block{d}' for d in range(len(plan.blocks.outer)))};")
    memory = f"{tensor} + offset{_outer_offset(request)}"
    local = buffer if start == "0" else f"{buffer} + {start}"
    heads = _guards(request) + _loops(request)
    with writer.block(" ".join(heads)) if heads else writer.flat():
        _issue(request, memory, local + _packed_offset(request), f"{buffer}_reply[{slot}]", writer)
        writer.line(f"{buffer}_issued[{slot}] += 1;")


def _guards(request: _Request) -> list[str]:
    """The condition for a core to move anything, as an `if`; empty if it always holds."""
    positive = [
        f"{request.c(e)} > 0"
        for e in (request.block, request.count)
        if bounds_of(e, request.scope)[0] < 1
    ]
    return [f"if ({' && '.join(positive)})"] if positive else []


def _loops(request: _Request) -> list[str]:
    return [
        f"for (block{d} = 0; block{d} < {request.c(repeat.count)}; block{d}++)"
        for d, repeat in enumerate(request.plan.blocks.outer)
    ]


def _outer_offset(request: _Request) -> str:
    """Offset of one request's blocks in main memory, in elements."""
    strides = (_factor(request.c(repeat.stride)) for repeat in request.plan.blocks.outer)
    return "".join(f" + block{d} * {stride}" for d, stride in enumerate(strides))


def _packed_offset(request: _Request) -> str:
    """Offset of one request's blocks in the slot, packed in the order of the loops."""
    place = ""
    for d, repeat in enumerate(request.plan.blocks.outer):
        count = _factor(request.c(repeat.count))
        place = f"({place} * {count} + block{d})" if place else f"block{d}"
    packed = _factor(request.c(request.block * request.count))
    return f" + {place} * {packed}" if place else ""


def _factor(text: str) -> str:
    return text if text.isalnum() else f"({text})"


def _issue(request: _Request, memory: str, local: str, reply: str, writer: CWriter) -> None:
    nbytes = request.c(request.block * request.count * request.size)
    strided = ["0", "0"]
    if request.plan.blocks.count != Const(1):
        gap, block = request.plan.blocks.stride - request.block, request.block * request.size
        strided = [request.c(gap * request.size), request.c(block)]
        if bounds_of(gap, request.scope)[0] < 1:  # without a gap they are one block
            strided[1] = f"{_factor(request.c(gap))} > 0 ? {strided[1]} : 0"
    reply = f"(void *)&{reply}"
    if request.stmt.direction == "get":
        arguments = [f"(void *)({memory})", local, nbytes, reply, "0", *strided]
        writer.call("athread_get", ["PE_MODE", *arguments])
    else:
        writer.call("athread_put", ["PE_MODE", local, memory, nbytes, reply, *strided])


def _description(
    stmt: Transfer, plan: TransferPlan, size: int, naming: LaunchNaming, scope: Scope
) -> str:
    region = ", ".join(_range(r, scope) for r in stmt.ranges)
    tensor = f"{naming.tensors[stmt.tensor]}[{region}]"
    slot = f"{naming.buffers[stmt.buffer]}[{c_expression(stmt.slot, scope)}]"
    ends = f"get {tensor} to {slot}" if stmt.direction == "get" else f"put {slot} to {tensor}"
    total = plan.blocks.length * plan.blocks.count
    for repeat in plan.blocks.outer:
        total = total * repeat.count
    amount = f"{_amount(total, scope, size, plan.largest_elements)} bytes"
    if plan.blocks.count == Const(1) and not plan.blocks.outer:
        layout = "contiguous"
    else:
        layout = f"in blocks of {_amount(plan.blocks.length, scope, size, plan.largest_elements)}"
    text = f"{ends}: {amount} {layout}"
    return text.replace("tw_minimum", "min").replace("tw_maximum", "max")


def _amount(elements: Expr, scope: Scope, size: int, largest: int) -> str:
    if isinstance(elements, Const):
        return str(elements.value * size)
    return f"up to {min(bounds_of(elements, scope)[1], largest) * size}"


def _range(r: Range, scope: Scope) -> str:
    start, extent = c_expression(r.start, scope), c_expression(r.extent, scope)
    if r.step != Const(1):
        return f"at({start}, {extent}, {c_expression(r.step, scope)})"
    return start if extent == "1" else f"at({start}, {extent})"


_VECTOR_DIMENSIONS = {"m": "VECTOR_M", "n": "VECTOR_N"}
_ORDERS = {"row": "ROW_MAJOR", "column": "COLUMN_MAJOR"}


def emit_call(call: Call, context: CallContext) -> None:
    """Write one call. Raises ProgramError for operands that the primitive does not take."""
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
    """Check the points of a transform: the cores' library has transforms for some only."""
    tile, given = transform.output_tile, transform.points
    points = TEXTBOOK_POINTS.get(tile, "") if given is None else given
    if points in TILES_OF_CORES:
        return
    which = "" if given is None else f"points are {points[:60]!r}"
    raise ProgramError(
        f"{transform.name}: {which or f'output_tile is {tile}'}",
        fix="use those of the textbook" if which else "use 2 or 4",
    )


def _product(multiply: MatrixProduct, views: tuple[View, ...], context: CallContext) -> None:
    c, a, b = views
    m, n, k = role_extent(c, "m"), role_extent(c, "n"), role_extent(a, "k")
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
    """Write the list of a chain's pairs and the call that reads it."""
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
        extents = (role_extent(c, "m"), role_extent(c, "n"), role_extent(a, "k"))
        m, n, k = map(context.c, extents)
        leading = [context.c(form.leading_dimension) for form in forms]
        arguments = [str(links), m, n, k, "tw_pairs", *leading[:2]]
        arguments += [context.pointer(c, forms[2].offset_elements), leading[2]]
        arguments.append(_VECTOR_DIMENSIONS[chain.multiply.along])
        arguments += [_ORDERS[form.order] for form in forms]
        writer.call(context.function("spm_gemm_chain", c), arguments)


def _repack(_: Repack, views: tuple[View, ...], context: CallContext) -> None:
    """Repack rows to another length, one call for each dimension that changes. Dimensions that
    shrink come first, so that the tile never needs more room than before or after.
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
    """The smaller of two extents; only one of them if it is known to be smaller."""
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
    **MAP_EMITTERS,
    Reduce: emit_reduce,
    Repack: _repack,
}


def emit_slave(program: Program, machine: Machine, naming: LaunchNaming) -> str:
    """The text of `<name>_slave.c`. Raises CapacityError if a hardware limit is exceeded."""
    writer = CWriter()
    context = _Context(program, machine, naming, writer)
    infos = buffer_infos(program, {SCRATCHPAD: machine.spm_available_bytes})
    _head(context, infos)
    with writer.block(f"void {naming.kernel}(void *argument)"):
        _declarations(context, infos)
        _body(program.body, core_scope(machine), context)
        if infos:
            writer.line()
            writer.line("ldm_free(region, ldm_bytes);")
    return writer.text()


def _head(context: _Context, infos: tuple[BufferInfo, ...]) -> None:
    writer, naming = context.writer, context.naming
    cores = context.machine.cores
    writer.comment(f"{naming.artifact}_slave.c: what each of the {cores} cores runs. Generated.")
    writer.line()
    for line in _budget(context, infos):
        writer.line(line)
    writer.line()
    if has_expressions(context.program):
        writer.line("#include <math.h>")
    writer.lines("#include <slave.h>\n#include <dma.h>")
    writer.line()
    writer.lines(
        f'#include "{naming.artifact}.h"\n#include "spm_gemm.h"\n#include "tw_primitives.h"'
    )
    writer.lines("\n".join(f'#include "{file}"' for file in expression_headers([context.program])))
    for kind in dict.fromkeys(dtype(info.dtype) for info in infos):
        if kind not in FLOATS:
            writer.lines(inline_primitives(kind))
    writer.line()
    used, available = _used_bytes(infos), context.machine.spm_available_bytes
    writer.line(f"typedef char {naming.check}[{used} <= {available} ? 1 : -1];")
    writer.line()


def _budget(context: _Context, infos: tuple[BufferInfo, ...]) -> list[str]:
    """The scratchpad's budget as a table in a comment."""
    spm = context.machine.spm
    rows: list[tuple[str, ...]] = [("buffer", "type", "elements", "copies", "offset", "bytes")]
    for info in infos:
        name = context.naming.buffers[info.name]
        numbers = (
            info.elements,
            info.copies,
            info.offset_bytes,
            buffer_end(info) - info.offset_bytes,
        )
        rows.append((name, dtype(info.dtype).c_name, *map(str, numbers)))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = ["/* LDM of one core, in bytes:"]
    for row in rows:
        left = "  ".join(row[i].ljust(widths[i]) for i in range(2))
        right = "  ".join(row[i].rjust(widths[i]) for i in range(2, 6))
        lines.append(f" *   {left}  {right}")
    lines.append(
        f" * {_used_bytes(infos)} of {context.machine.spm_available_bytes} used; "
        f"{spm.reserved_bytes} of {spm.capacity_bytes} are left to the stack. */"
    )
    return lines


def _used_bytes(infos: tuple[BufferInfo, ...]) -> int:
    return max((buffer_end(info) for info in infos), default=0)


def _declarations(context: _Context, infos: tuple[BufferInfo, ...]) -> None:
    writer, naming, columns = context.writer, context.naming, context.machine.mesh.columns
    if context.program.tensors:
        struct = f"struct {naming.parameters}"
        writer.line(f"const {struct} *const parameters = argument;")
    used = used_symbols(context.program.body)
    if used & set(CORE_SYMBOLS):
        writer.line("const int core = athread_get_id(-1);")
    for symbol, value in zip(CORE_SYMBOLS, (f"core / {columns}", f"core % {columns}"), strict=True):
        if symbol in used:
            writer.line(f"const long {symbol} = {value};")
    for t in context.program.tensors:
        const = "const " if t.is_given else ""
        name, memory = naming.tensors[t.name], naming.tensors[t.memory]
        writer.line(f"{const}{dtype(t.dtype).c_name} *const {name} = parameters->{memory};")
    if infos:
        _buffer_declarations(context, infos)
        _reply_declarations(context, infos)
    if naming.variables:
        writer.line(f"long {', '.join(naming.variables.values())};")
    writer.line()


def _buffer_declarations(context: _Context, infos: tuple[BufferInfo, ...]) -> None:
    writer, alignment = context.writer, context.machine.spm.alignment_bytes
    # ldm_malloc promises no alignment, vector accesses trap without it.
    writer.line(f"enum {{ ldm_bytes = {_used_bytes(infos)} + {alignment} }};")
    writer.line("char *const region = (char *)ldm_malloc(ldm_bytes);")
    up = f"((unsigned long)region + {alignment - 1}) / {alignment} * {alignment}"
    writer.line(f"char *const ldm = (char *)({up});")
    for info in infos:
        name, kind = context.naming.buffers[info.name], dtype(info.dtype).c_name
        writer.line(f"{kind} *const {name} = ({kind} *)(ldm + {info.offset_bytes});")


def _reply_declarations(context: _Context, infos: tuple[BufferInfo, ...]) -> None:
    """Declarations of the reply words of buffers with transfers."""
    body = walk(context.program.body)
    moved = {stmt.buffer for stmt in body if isinstance(stmt, Transfer | Wait)}
    writer = context.writer
    for info in infos:
        if info.name not in moved:
            continue
        name, zeros = context.naming.buffers[info.name], ", ".join(["0"] * info.copies)
        writer.line(f"volatile int {name}_reply[{info.copies}] = {{{zeros}}};")
        writer.line(f"int {name}_issued[{info.copies}] = {{{zeros}}};")


def _body(body: tuple[Stmt, ...], scope: Scope, context: _Context) -> None:
    rules = lowering_of(context.machine).chains
    for stmt in body if rules is None else with_chains(body, rules):
        _statement(stmt, scope, context)


def _statement(stmt: Stmt | Chain, scope: Scope, context: _Context) -> None:
    writer, naming = context.writer, context.naming
    calls = CallContext(context.program, naming, scope, writer)
    match stmt:
        case For():
            _loop(stmt, scope, context)
        case If():
            _condition(stmt, scope, context)
        case Transfer():
            _transfer(stmt, scope, context)
        case Wait(buffer, slot):
            name, place = naming.buffers[buffer], c_expression(slot, scope)
            writer.line(f"dma_wait(&{name}_reply[{place}], {name}_issued[{place}]);")
        case Chain(call, links=Const(1)):
            emit_call(call, calls)
        case Chain():
            emit_chain(stmt, calls)
        case Call():
            emit_call(stmt, calls)
        case Barrier():
            writer.line("athread_syn(ARRAY_SCOPE, 0xffff);")
        case _:
            assert_never(stmt)


def _loop(stmt: For, scope: Scope, context: _Context) -> None:
    name = context.naming.variables[stmt.var]
    last = max(bounds_of(stmt.extent, scope)[1] - 1, 0)
    inner = scope.with_symbol(stmt.var, name, (0, last))
    extent = c_expression(stmt.extent, scope)
    with context.writer.block(f"for ({name} = 0; {name} < {extent}; {name}++)"):
        _body(stmt.body, inner, context)


def _condition(stmt: If, scope: Scope, context: _Context) -> None:
    tail = "} else {" if stmt.orelse else "}"
    with context.writer.block(f"if ({c_expression(stmt.condition, scope)})", tail):
        _body(stmt.then, scope, context)
    if stmt.orelse:
        with context.writer.indented("}"):
            _body(stmt.orelse, scope, context)
