"""The C file of one kernel: an explicit program in, `<name>.c` out.

Buffers lie in the workspace that the caller provides; the program's loops run as they stand,
transfers are copies, waits emit nothing. The text is C11 with `long` arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import prod
from typing import assert_never

from tilewright.codegen.artifact import BufferInfo, TensorInfo
from tilewright.codegen.c.elementwise_calls import (
    ELEMENTWISE,
    CallContext,
    Emitters,
    check_element_types,
    emit_requantise,
    emitter_of,
    requantisation,
)
from tilewright.codegen.c.elementwise_text import integer_arithmetic, static_primitives
from tilewright.codegen.c.expression import Scope, bounds_of, c_expression
from tilewright.codegen.c.names import Naming
from tilewright.codegen.c.scalar_calls import SCALAR_CALLS, has_expressions
from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import DType, dtype
from tilewright.common.expr import Const, substitute
from tilewright.ir.chains import Chain, with_chains
from tilewright.ir.matrix import as_view
from tilewright.ir.nodes import (
    Barrier,
    Call,
    For,
    If,
    Program,
    Range,
    Stmt,
    Tile,
    Transfer,
    Wait,
)
from tilewright.ir.primitives import MatrixProduct, Requantise, WinogradTransform
from tilewright.ir.regions import strides_of
from tilewright.ir.threads import meets_inside
from tilewright.ir.visit import walk
from tilewright.machine import Machine
from tilewright.passes.split_ahead import Ahead
from tilewright.targets.host.emit.copy import (
    Packing,
    copy_function,
    emit_copy_call,
    emit_packing,
    pack_function,
    stream_function,
)
from tilewright.targets.host.emit.header import (
    PACKED,
    Workspace,
    pack_prototype,
    prototype,
    thread_parameters,
)
from tilewright.targets.host.emit.kernel_epilogue import PLAIN, KernelEpilogue
from tilewright.targets.host.emit.packing import (
    emit_copy,
    emit_pack,
    emit_stream,
    panels_at_once,
)
from tilewright.targets.host.emit.products import ProductChain, Products
from tilewright.targets.host.emit.threads import (
    MEET,
    OWN,
    PART,
    THREAD,
    THREADS,
    emit_team,
    parts_inside,
    run_of,
    thread_functions,
)
from tilewright.targets.host.emit.transform import emit_transform_call, transform_of
from tilewright.targets.host.emit.window_sums import emit_window_call, window_function
from tilewright.targets.host.sections import Caches
from tilewright.targets.host.vectors.functions import functions_text
from tilewright.targets.host.vectors.instruction_sets import InstructionSet, vector_text
from tilewright.targets.host.vectors.microkernel import VARYING, Microkernel
from tilewright.targets.host.vectors.microkernel_text import emit_microkernel
from tilewright.targets.host.vectors.transform_text import LineTransform, emit_transform
from tilewright.targets.host.vectors.window_text import WindowFunction, emit_window_function

_FENCE = "__builtin_ia32_sfence();"
"""Fence after which other threads see non-temporal stores."""

_EMITTERS: Emitters = {**ELEMENTWISE, **SCALAR_CALLS, Requantise: emit_requantise}
"""Emitters of all calls but chains of products."""
_NUMBERS = ("INFINITY", "NAN")
"""Macros of <math.h> that functions of vectors name."""


@dataclass(frozen=True)
class KernelText:
    """Everything that a kernel's C file is generated from."""

    program: Program
    naming: Naming
    products: Products
    tensors: tuple[TensorInfo, ...]
    buffers: tuple[BufferInfo, ...]
    workspace: Workspace
    isa: InstructionSet
    machine: Machine
    ahead: Ahead | None = None
    epilogue: KernelEpilogue = PLAIN
    far: frozenset[str] = frozenset()
    """Tensors that the last cache cannot keep."""
    index: str | None = None
    """C expression for the number of a part, inside the loops that threads divide."""

    @property
    def is_divided(self) -> bool:
        """True if the kernel is for several threads."""
        return self.workspace.threads > 1

    def is_streamed(self, stmt: Transfer) -> bool:
        """True if a transfer puts floats into a far tensor by non-temporal stores. The kernel must
        have products of the same type, whose vector operations the copy uses.
        """
        kind = dtype(self.program.tensor(stmt.tensor).dtype)
        summed = any(one.kernel.dtype == kind for _, one in self.products.calls)
        far = stmt.tensor in self.far and stmt.buffer not in self.products.packed
        far = far and kind.is_float
        return far and summed and stmt.direction == "put" and self.isa.streams

    def streamed(self) -> dict[DType, None]:
        """Element types of the transfers with non-temporal stores."""
        transfers = (s for s in walk(self.program.body) if isinstance(s, Transfer))
        far = (s for s in transfers if self.is_streamed(s))
        return dict.fromkeys(dtype(self.program.buffer(s.buffer).dtype) for s in far)

    @property
    def has_streams(self) -> bool:
        """True if the kernel has non-temporal stores."""
        products = any(one.kernel.streams for _, one in self.products.calls)
        return products or bool(self.streamed()) or any(one.streams for one in self.transforms())

    def of_constants(self) -> KernelText:
        """The text of the statements that run ahead of all calls and read the constant as given."""
        assert self.ahead is not None
        program = replace(self.program, tensors=(self.ahead.given, self.ahead.made))
        return replace(self, program=program)

    def transforms(self) -> dict[LineTransform, None]:
        """The distinct transforms of operands in place."""
        calls = (s for s in walk(self.program.body) if isinstance(s, Call))
        found = (self.transform_of(call) for call in calls)
        return dict.fromkeys(one for one in found if one is not None)

    def transform_of(self, call: Call) -> LineTransform | None:
        """The transform of operands in place that computes a call, if there is one. Its results for
        other threads bypass the caches: before a core stores again to a line that two cores have
        read, both copies of the line must be invalidated.
        """
        past = self.far | {name for name, _ in self.workspace.shared}
        return transform_of(call, self.program, self.isa, self.epilogue, past)

    def window_functions(self) -> dict[WindowFunction, str]:
        """The distinct functions for sums of windows, with their names."""
        calls = (s for s in walk(self.program.body) if isinstance(s, Call))
        found = dict.fromkeys(one for call in calls if (one := self.window_function(call)))
        return {one: f"tw_windows{i}" for i, one in enumerate(found)}

    def window_function(self, call: Call) -> WindowFunction | None:
        """The function that computes a call of sums of windows, None for other calls."""
        return window_function(call, self.program, self.isa, self.machine, self.epilogue)

    @property
    def inside(self) -> frozenset[str]:
        """Tensors whose border of zeros no statement reads: sums of windows can skip it."""
        program, read = self.program, set[str]()
        for stmt in walk(program.body):
            if isinstance(stmt, Transfer):
                read.add(program.tensor(stmt.tensor).memory)
            elif isinstance(stmt, Call):
                one = self.window_function(stmt)
                inner = stmt.operands[1] if one and one.reads_inside else None
                tiles = (o for o in stmt.operands if isinstance(o, Tile) and o is not inner)
                read |= {program.tensor(tile.tensor).memory for tile in tiles}
        return frozenset(t.name for t in program.tensors if t.zeros and t.memory not in read)

    def microkernels(self) -> dict[Microkernel, tuple[str, frozenset[int], frozenset[int]]]:
        """The distinct micro-kernels: name, heights and widths of register blocks of each."""
        found: dict[Microkernel, tuple[str, frozenset[int], frozenset[int]]] = {}
        for _, one in self.products.calls:
            name = f"tw_product{len(found)}"
            name, heights, widths = found.get(one.kernel, (name, frozenset(), frozenset()))
            found[one.kernel] = name, heights | one.heights, widths | one.widths
        return found

    def name_of(self, one: ProductChain) -> str:
        """Name of a product's micro-kernel function."""
        return self.microkernels()[one.kernel][0]


def emit_kernel(text: KernelText) -> str:
    """The text of `<name>.c`. Raises ProgramError for a primitive that the host lacks."""
    writer, program, naming = CWriter(), text.program, text.naming
    functions = [*_functions(text)]
    writer.comment(f"{naming.artifact}.c: one kernel for this computer. Generated.")
    writer.line(f'#include "{naming.artifact}.h"')
    # The header takes gcc as long to read as all else before the micro-kernels.
    if has_expressions(program) or any(name in part for part in functions for name in _NUMBERS):
        writer.line("#include <math.h>")
    if text.ahead:
        writer.line("#include <stdlib.h>")
    writer.line()
    for part in functions:
        writer.lines(part)
        writer.line()
    for info in text.tensors:
        if info.is_packed:
            _pack(info, text, writer)
            writer.line()
    name, parameters = prototype(naming, text.tensors)
    if text.is_divided:
        writer.head(f"{name}_thread", [*parameters, *thread_parameters()])
    else:
        writer.head(name, parameters)
    with writer.block():
        _declarations(text, writer)
        _body(program.body, Scope(), text, writer)
        if text.has_streams:
            writer.line(_FENCE)
    if text.is_divided:
        writer.line()
        emit_team(name, parameters, text.workspace.threads, writer)
    return writer.text()


def _functions(text: KernelText) -> Iterator[str]:
    """The C functions that the kernel calls: arithmetic, vectors, copies, products, primitives."""
    yield integer_arithmetic()
    if text.is_divided:
        yield thread_functions()
    called = [s for s in _every_statement(text) if isinstance(s, Call)]
    anyhow = [s for s in called if text.transform_of(s) is None]
    if {type(s.primitive) for s in anyhow} & (_EMITTERS.keys() - SCALAR_CALLS.keys()):
        types = [t.dtype for t in text.program.tensors] + [b.dtype for b in text.program.buffers]
        kinds = tuple(map(dtype, dict.fromkeys(types)))
        yield static_primitives(kinds, winograd=_transforms_anyhow(anyhow))
    made = (
        requantisation(s.primitive, [text.program.element_type(o) for o in s.operands])
        for s in called
        if isinstance(s.primitive, Requantise)
    )
    yield from dict.fromkeys(one.text() for one in made)
    kernels, transforms, windows = text.microkernels(), text.transforms(), text.window_functions()
    if kernels or transforms or windows:
        used = [kernel.dtype for kernel in kernels]
        used += [one.dtype for one in transforms] + [one.dtype for one in windows]
        widened = dict.fromkeys((k.vector_dtype, k.dtype) for k in kernels)
        loads = tuple(pair for pair in widened if pair[0] != pair[1])
        yield vector_text(text.isa, tuple(dict.fromkeys(used)), loads)
        yield functions_text(text.epilogue.finish.calls, vectors=True)
    plain, packing = dict[DType, None](), dict[tuple[DType, int], None]()
    for stmt in walk(text.program.body):
        if isinstance(stmt, Transfer):
            kind, panels = dtype(text.program.buffer(stmt.buffer).dtype), text.products.packed
            if stmt.buffer in panels:
                packing[kind, panels[stmt.buffer].width] = None
            else:
                plain[kind] = None
    for info in text.tensors:
        form = info.made or info
        if form.panels:
            packing[dtype(form.dtype), form.panels.width] = None
    for kind in plain:
        yield emit_copy(copy_function(kind), kind)
    for kind in text.streamed():
        yield emit_stream(stream_function(kind), copy_function(kind), kind, text.isa)
    yield from (_packing(text, *each) for each in packing)
    for kernel, (name, heights, widths) in kernels.items():
        yield emit_microkernel(kernel, name, heights, widths)
    for one in transforms:
        yield emit_transform(one)
    for window, name in windows.items():
        yield emit_window_function(window, name)


def _packing(text: KernelText, kind: DType, width: int) -> str:
    """The function that packs into panels of so many elements."""
    name, caches = pack_function(kind, width), text.machine.find_section(Caches)
    if caches is None:
        return emit_pack(name, kind, width)
    return emit_pack(name, kind, width, panels_at_once(caches.l1.ways), caches.rows_ahead)


def _every_statement(text: KernelText) -> Iterator[Stmt]:
    if text.ahead:
        yield from walk(text.ahead.body)
    yield from walk(text.program.body)


def _transforms_anyhow(calls: Iterable[Call]) -> tuple[str, ...]:
    """Distinct points of the Winograd transforms among `calls`, whose operands have any layout."""
    primitives = (call.primitive for call in calls)
    found = (p.finite_points for p in primitives if isinstance(p, WinogradTransform))
    return tuple(dict.fromkeys(found))


def _pack(info: TensorInfo, text: KernelText, writer: CWriter) -> None:
    """Write the function that converts one constant to the form that the kernel reads."""
    writer.head(*pack_prototype(text.naming, info))
    with writer.block():
        if info.made is None:
            _pack_panels(info, PACKED, text, writer)
        else:
            _make(info.made, text, writer)


def _make(made: TensorInfo, text: KernelText, writer: CWriter) -> None:
    """Write statements that compute a tensor from a constant, and pack it."""
    assert text.ahead is not None
    kind, name = dtype(made.dtype), made.identifier
    if made.panels is None:
        writer.line(f"{kind.c_name} *const {name} = {PACKED};")
    else:
        count = prod(made.shape)
        writer.line(f"{kind.c_name} *const {name} = malloc({count}UL * sizeof *{name});")
        writer.line(f"if (!{name})")
        writer.line("    abort();")
    _body(text.ahead.body, Scope(), text.of_constants(), writer)
    if made.panels is not None:
        _pack_panels(made, PACKED, text, writer)
        writer.line(f"free({name});")


def _pack_panels(info: TensorInfo, target: str, text: KernelText, writer: CWriter) -> None:
    assert info.panels is not None
    shape = text.program.tensor(info.name).shape
    ranges = tuple(Range(Const(0), e) for e in shape)
    strides = strides_of(shape)
    kind, source = dtype(info.dtype), info.identifier
    packing = Packing(ranges, strides, shape, info.panels, kind, source, target, Const(0))
    emit_packing(packing, CallContext(text.program, text.naming, Scope(), writer))


def _declarations(text: KernelText, writer: CWriter) -> None:
    """Declare buffers and scratch tensors in the workspace, and tensors that share storage."""
    naming, alignment = text.naming, text.workspace.alignment_bytes
    if text.workspace.size_bytes:
        up = f"((unsigned long)workspace + {alignment - 1}) / {alignment} * {alignment}"
        writer.line(f"char *const region = (char *)({up});")
    else:
        writer.line("(void)workspace;")
    own = "region"
    if text.is_divided and text.workspace.own_bytes:
        own = OWN
        writer.line(f"char *const {OWN} = region + {THREAD} * {text.workspace.own_bytes};")
    for info in text.buffers:
        kind, name = dtype(info.dtype).c_name, naming.buffers[info.name]
        writer.line(f"{kind} *const {name} = ({kind} *)({own} + {info.offset_bytes});")
    for place, tensors in ((own, text.workspace.scratch), ("region", text.workspace.shared)):
        for name, offset in tensors:
            kind = dtype(text.program.tensor(name).dtype).c_name
            writer.line(f"{kind} *const {naming.tensors[name]} = ({kind} *)({place} + {offset});")
    for given in text.tensors:
        if given.made:
            kind = dtype(given.made.dtype).c_name
            writer.line(f"const {kind} *const {given.made.identifier} = {given.identifier};")
    for t in text.program.tensors:
        if t.storage:
            const = "const " if t.is_given or text.program.tensor(t.memory).is_given else ""
            own, memory = naming.tensors[t.name], naming.tensors[t.memory]
            writer.line(f"{const}{dtype(t.dtype).c_name} *const {own} = {memory};")


def _body(body: tuple[Stmt, ...], scope: Scope, text: KernelText, writer: CWriter) -> None:
    for stmt in with_chains(body):
        if isinstance(stmt, Chain):
            one, loops = text.products.of(stmt.call), tuple(f.var for f in stmt.loops)
            context = CallContext(text.program, text.naming, scope, writer)
            _emit_product_call(one, loops, text.name_of(one), context)
        else:
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
            panels = text.products.packed.get(stmt.buffer)
            emit_copy_call(stmt, panels, context, streamed=text.is_streamed(stmt))
        case Call():
            _call(stmt, text, context)
        case Barrier() if text.is_divided and text.index is None:
            _meet(text, writer)
        case Wait() | Barrier():
            pass
        case _:
            assert_never(stmt)


def _loop(stmt: For, scope: Scope, text: KernelText, writer: CWriter) -> None:
    name = text.naming.variables[stmt.var]
    last = max(bounds_of(stmt.extent, scope)[1] - 1, 0)
    inner = scope.with_symbol(stmt.var, name, (0, last))
    extent = c_expression(stmt.extent, scope)
    if stmt.threads > 1:
        _divided_loop(stmt, (name, extent), inner, text, writer)
        return
    with writer.block(f"for (long {name} = 0; {name} < {extent}; {name}++)"):
        _body(stmt.body, inner, text, writer)
        if text.is_divided and text.index is None and meets_inside(stmt):
            _meet(text, writer)


def _meet(text: KernelText, writer: CWriter) -> None:
    """Write a barrier, after which each thread sees what the others stored."""
    if text.has_streams:
        writer.line(_FENCE)
    writer.line(MEET)


def _divided_loop(
    stmt: For, loop: tuple[str, str], inner: Scope, text: KernelText, writer: CWriter
) -> None:
    """Write a loop over the iterations of a thread's parts; `loop` is (variable, extent) in C."""
    inside = parts_inside(stmt.body)
    parts = stmt.threads * inside
    with ExitStack() as stack:
        index = text.index
        if index is None:
            index = PART
            head = f"for (long {PART} = {THREAD}; {PART} < {parts}; {PART} += {THREADS})"
            stack.enter_context(writer.block(head))
        name, extent = loop
        first, end = run_of(extent, index, stmt.threads, inside)
        head = f"for (long {name} = {first}; {name} < {end}; {name}++)"
        stack.enter_context(writer.block(head))
        left = f"{index} % {inside}" if inside > 1 else index
        _body(stmt.body, inner, replace(text, index=left), writer)


def _call(call: Call, text: KernelText, context: CallContext) -> None:
    transform = text.transform_of(call)
    if transform is not None:
        emit_transform_call(call, transform, context, text.epilogue)
        return
    if windows := text.window_function(call):
        emit_window_call(call, windows, text.window_functions()[windows], context)
        return
    views = tuple(as_view(operand, text.program) for operand in call.operands)
    check_element_types(call.primitive, views, context)
    emit = emitter_of(call.primitive, _EMITTERS, "host", beside=(MatrixProduct,))
    emit(call.primitive, views, context)


def _emit_product_call(
    one: ProductChain, loops: tuple[str, ...], name: str, context: CallContext
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
        arguments += [context.c(runs.length)] if one.kernel.c_run == VARYING else []
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
