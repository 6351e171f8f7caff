"""The C file of one kernel: an explicit program in, `<name>.c` out.

Buffers lie in the workspace that the caller gives; the program's loops run as they stand, transfers
are copies, waits nothing. The text is C11 with `long` arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from tilewright.common.dtypes import DType, dtype
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, product
from tilewright.ir.matrix import as_view
from tilewright.ir.nodes import Barrier, Call, For, If, Program, Range, Stmt, Transfer, Wait
from tilewright.ir.visit import walk
from tilewright.targets.base import BufferInfo, TensorInfo
from tilewright.targets.c_expression import Scope, bounds_of, c_expression
from tilewright.targets.c_names import Naming
from tilewright.targets.c_writer import CWriter
from tilewright.targets.elementwise_calls import ELEMENTWISE, CallContext, check_element_types
from tilewright.targets.elementwise_text import integer_arithmetic, static_primitives
from tilewright.targets.host.emit_copy import (
    Packing,
    copy_function,
    emit_copy_call,
    emit_packing,
    pack_function,
)
from tilewright.targets.host.emit_header import PACKED, Workspace, pack_prototype, prototype
from tilewright.targets.host.emit_product import emit_product_call
from tilewright.targets.host.instruction_sets import vector_text
from tilewright.targets.host.microkernel import Microkernel
from tilewright.targets.host.microkernel_text import emit_microkernel
from tilewright.targets.host.packing import emit_copy, emit_pack
from tilewright.targets.host.products import Product, Products


@dataclass(frozen=True)
class KernelText:
    """What the file is written from."""

    program: Program
    naming: Naming
    products: Products
    tensors: tuple[TensorInfo, ...]
    buffers: tuple[BufferInfo, ...]
    workspace: Workspace

    def microkernels(self) -> dict[Microkernel, tuple[str, frozenset[int]]]:
        """The distinct micro-kernels, their names and the heights that their calls need."""
        heights: dict[Microkernel, frozenset[int]] = {}
        for _, one in self.products.calls:
            heights[one.kernel] = heights.get(one.kernel, frozenset()) | one.heights
        return {k: (f"tw_product{i}", h) for i, (k, h) in enumerate(heights.items())}

    def name_of(self, one: Product) -> str:
        """The name of a product's micro-kernel."""
        return self.microkernels()[one.kernel][0]


def emit_kernel(text: KernelText) -> str:
    """The text of `<name>.c`; raises ProgramError for a primitive that the host lacks."""
    writer, program, naming = CWriter(), text.program, text.naming
    writer.comment(f"{naming.artifact}.c: one kernel for this computer. Generated.")
    writer.line(f'#include "{naming.artifact}.h"')
    writer.line()
    for part in _functions(text):
        writer.lines(part)
        writer.line()
    for info in text.tensors:
        if info.panels:
            _pack(info, text, writer)
            writer.line()
    writer.head(*prototype(naming, text.tensors))
    with writer.block():
        _declarations(text, writer)
        _body(program.body, Scope(), text, writer)
    return writer.text()


def _functions(text: KernelText) -> Iterator[str]:
    """Arithmetic, vector operations, copies, micro-kernels and primitives that the kernel calls."""
    yield integer_arithmetic()
    called = {s.primitive for s in walk(text.program.body) if isinstance(s, Call)}
    if called & ELEMENTWISE.keys():
        types = [t.dtype for t in text.program.tensors] + [b.dtype for b in text.program.buffers]
        transforms = any(name.startswith("winograd") for name in called)
        yield static_primitives(tuple(map(dtype, dict.fromkeys(types))), winograd=transforms)
    kernels = text.microkernels()
    if kernels:
        kinds = tuple(dict.fromkeys(kernel.dtype for kernel in kernels))
        yield vector_text(next(iter(kernels)).isa, kinds)
    plain, packing = dict[DType, None](), dict[tuple[DType, int], None]()
    for stmt in walk(text.program.body):
        if isinstance(stmt, Transfer):
            kind, panels = dtype(text.program.buffer(stmt.buffer).dtype), text.products.packed
            if stmt.buffer in panels:
                packing[kind, panels[stmt.buffer].width] = None
            else:
                plain[kind] = None
    for info in text.tensors:
        if info.panels:
            packing[dtype(info.dtype), info.panels.width] = None
    for kind in plain:
        yield emit_copy(copy_function(kind), kind)
    for kind, width in packing:
        yield emit_pack(pack_function(kind, width), kind, width)
    for kernel, (name, heights) in kernels.items():
        yield emit_microkernel(kernel, name, heights)


def _pack(info: TensorInfo, text: KernelText, writer: CWriter) -> None:
    """The function that packs one constant."""
    assert info.panels is not None
    shape = text.program.tensor(info.name).shape
    ranges = tuple(Range(Const(0), e) for e in shape)
    strides = tuple(product(shape[d + 1 :]) for d in range(len(shape)))
    kind, source = dtype(info.dtype), info.identifier
    writer.head(*pack_prototype(text.naming, info))
    with writer.block():
        packing = Packing(ranges, strides, info.panels, kind, source, PACKED, Const(0))
        emit_packing(packing, CallContext(text.program, text.naming, Scope(), writer))


def _declarations(text: KernelText, writer: CWriter) -> None:
    """Buffers and scratch tensors in the workspace, tensors that share storage, loop variables."""
    naming, alignment = text.naming, text.workspace.alignment_bytes
    if text.workspace.size_bytes:
        up = f"((unsigned long)workspace + {alignment - 1}) / {alignment} * {alignment}"
        writer.line(f"char *const region = (char *)({up});")
    else:
        writer.line("(void)workspace;")
    for info in text.buffers:
        kind, name = dtype(info.dtype).c_name, naming.buffers[info.name]
        writer.line(f"{kind} *const {name} = ({kind} *)(region + {info.offset_bytes});")
    for name, offset in text.workspace.scratch:
        kind = dtype(text.program.tensor(name).dtype).c_name
        writer.line(f"{kind} *const {naming.tensors[name]} = ({kind} *)(region + {offset});")
    for t in text.program.tensors:
        if t.storage:
            const = "const " if t.is_given or text.program.tensor(t.memory).is_given else ""
            own, memory = naming.tensors[t.name], naming.tensors[t.memory]
            writer.line(f"{const}{dtype(t.dtype).c_name} *const {own} = {memory};")


def _body(body: tuple[Stmt, ...], scope: Scope, text: KernelText, writer: CWriter) -> None:
    for stmt in body:
        _statement(stmt, scope, text, writer)


def _statement(stmt: Stmt, scope: Scope, text: KernelText, writer: CWriter) -> None:
    context = CallContext(text.program, text.naming, scope, writer)
    match stmt:
        case For():
            _loop(stmt, scope, text, writer)
        case If():
            tail = "} else {" if stmt.orelse else "}"
            with writer.block(f"if ({c_expression(stmt.condition, scope)})", tail):
                _body(stmt.then, scope, text, writer)
            if stmt.orelse:
                with writer.indented("}"):
                    _body(stmt.orelse, scope, text, writer)
        case Transfer():
            emit_copy_call(stmt, text.products.packed.get(stmt.buffer), context)
        case Call():
            _call(stmt, text, context)
        case Wait() | Barrier():
            pass
        case _:
            assert_never(stmt)


def _loop(stmt: For, scope: Scope, text: KernelText, writer: CWriter) -> None:
    name = text.naming.variables[stmt.var]
    last = max(bounds_of(stmt.extent, scope)[1] - 1, 0)
    inner = scope.with_symbol(stmt.var, name, (0, last))
    extent = c_expression(stmt.extent, scope)
    with writer.block(f"for (long {name} = 0; {name} < {extent}; {name}++)"):
        _body(stmt.body, inner, text, writer)


def _call(call: Call, text: KernelText, context: CallContext) -> None:
    if call.primitive == "gemm":
        one = text.products.of(call)
        emit_product_call(one, text.name_of(one), context)
        return
    views = tuple(as_view(operand, text.program) for operand in call.operands)
    check_element_types(call, views, context)
    if call.primitive not in ELEMENTWISE:
        known = ", ".join(sorted(("gemm", *ELEMENTWISE)))
        raise ProgramError(
            f"target host has no primitive {call.primitive!r}", fix=f"it has {known}"
        )
    ELEMENTWISE[call.primitive](call, views, context)
