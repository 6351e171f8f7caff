"""The file that the cores run: an explicit program in, `<name>_slave.c` out (swATOP 4.7).

Each core finds its row and column, takes one scratchpad region for all buffers and runs the
program's loops. A transfer adds requests to the reply word of its buffer slot; a wait spins until
that word counts as many replies. The text is C89 with `long` arithmetic, so that sw5cc takes it
without further flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from tilewright.codegen.artifact import BufferInfo
from tilewright.codegen.c.elementwise_calls import CallContext
from tilewright.codegen.c.elementwise_text import inline_primitives
from tilewright.codegen.c.expression import Scope, bounds_of, c_expression
from tilewright.codegen.c.scalar_calls import has_expressions
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import FLOATS, dtype
from tilewright.common.expr import Const, Expr
from tilewright.ir.chains import Chain, with_chains
from tilewright.ir.nodes import (
    CORE_SYMBOLS,
    SCRATCHPAD,
    Barrier,
    Call,
    For,
    If,
    Program,
    Stmt,
    Transfer,
    Wait,
)
from tilewright.ir.visit import used_symbols, walk
from tilewright.machine import Machine
from tilewright.passes.lowering import lowering_of
from tilewright.targets.sw26010.calls.expressions import expression_headers
from tilewright.targets.sw26010.emit.call import emit_call, emit_chain
from tilewright.targets.sw26010.emit.transfer import emit_transfer
from tilewright.targets.sw26010.names import LaunchNaming, buffer_end, buffer_infos, core_scope


@dataclass(frozen=True)
class _Context:
    program: Program
    machine: Machine
    naming: LaunchNaming
    writer: CWriter


def emit_slave(program: Program, machine: Machine, naming: LaunchNaming) -> str:
    """The text of `<name>_slave.c`; raises CapacityError where a hardware limit is exceeded."""
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
    """Reply words of the buffers that are moved."""
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
    writer, naming, program = context.writer, context.naming, context.program
    match stmt:
        case For():
            _loop(stmt, scope, context)
        case If():
            _condition(stmt, scope, context)
        case Transfer():
            emit_transfer(stmt, program, context.machine, naming, scope, writer)
        case Wait(buffer, slot):
            name, place = naming.buffers[buffer], c_expression(slot, scope)
            writer.line(f"dma_wait(&{name}_reply[{place}], {name}_issued[{place}]);")
        case Chain(call, links=Const(1)):
            emit_call(call, CallContext(program, naming, scope, writer))
        case Chain():
            emit_chain(stmt, CallContext(program, naming, scope, writer))
        case Call():
            emit_call(stmt, CallContext(program, naming, scope, writer))
        case Barrier():
            writer.line("athread_syn(ARRAY_SCOPE, 0xffff);")
        case _:
            assert_never(stmt)


def _loop(stmt: For, scope: Scope, context: _Context) -> None:
    name = context.naming.variables[stmt.var]
    last = max(_largest(stmt.extent, scope) - 1, 0)
    inner = scope.with_symbol(stmt.var, name, (0, last))
    extent = c_expression(stmt.extent, scope)
    with context.writer.block(f"for ({name} = 0; {name} < {extent}; {name}++)"):
        _body(stmt.body, inner, context)


def _largest(e: Expr, scope: Scope) -> int:
    return bounds_of(e, scope)[1]


def _condition(stmt: If, scope: Scope, context: _Context) -> None:
    tail = "} else {" if stmt.orelse else "}"
    with context.writer.block(f"if ({c_expression(stmt.condition, scope)})", tail):
        _body(stmt.then, scope, context)
    if stmt.orelse:
        with context.writer.indented("}"):
            _body(stmt.orelse, scope, context)
