"""The code of a node of the CNS-1: an explicit program in, one source of the Torrent out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from tilewright.codegen.artifact import (
    Array,
    Arrays,
    Artifact,
    BuildPlan,
    BuildStep,
    TensorInfo,
    require_bound,
)
from tilewright.codegen.c.names import buffer_infos, name_program, tensor_infos
from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError, ProgramError, ShapeError
from tilewright.common.expr import BinaryExpr, Const, Expr, evaluate, free_vars, substitute
from tilewright.ir import nodes as ir
from tilewright.ir.primitives import Fill, Lookup, Map, MatrixProduct
from tilewright.ir.regions import strides_of
from tilewright.ir.visit import instantiate, map_body, simplify_body, walk
from tilewright.machine import Machine
from tilewright.passes.simplify import Bounds, fold
from tilewright.simulate.runs import CoreRun
from tilewright.targets.cns1.emit import calls
from tilewright.targets.cns1.emit.calls import Streamed, write_elements
from tilewright.targets.cns1.emit.writer import Writer
from tilewright.targets.cns1.kernels import elements
from tilewright.targets.cns1.kernels.elements import Elements
from tilewright.targets.cns1.node import TABLE, assembled, node_table, run_node, with_refresh
from tilewright.targets.cns1.rules import CACHE, updates_weights
from tilewright.targets.cns1.sections import Rdram

ARGUMENTS = ("$4", "$5", "$6")
_LOOPS = ("$21", "$22", "$23")


@dataclass(frozen=True)
class _Context:
    program: ir.Program
    machine: Machine
    writer: Writer
    addresses: Mapping[str, str]


def program_text(program: ir.Program, machine: Machine, tensors: Sequence[TensorInfo]) -> str:
    """The source of a program for one core; its arguments are the addresses of its tensors in main
    memory. Loops run on registers; an iteration with other extents (a shorter last tile) stands
    behind its loop, so that all extents of calls and transfers are numbers. Raises ProgramError for
    statements without code.
    """
    if len(tensors) > len(ARGUMENTS):
        raise ProgramError(
            f"a program of {len(tensors)} tensors, the code takes {len(ARGUMENTS)} addresses"
        )
    writer = Writer()
    addresses = {t.name: r for t, r in zip(tensors, ARGUMENTS, strict=False)}
    for tensor in tensors:
        shape = " x ".join(map(str, tensor.shape))
        writer.comment(f"{addresses[tensor.name]}: {tensor.identifier}, {shape} {tensor.dtype}")
    writer.add("$28 = 32", "vlr = $28", "$30 = 128")
    _body(program.body, _Context(program, machine, writer, addresses))
    writer.add("goto $31", "nop")
    return writer.text()


def _body(body: tuple[ir.Stmt, ...], context: _Context) -> None:
    for stmt in body:
        match stmt:
            case ir.For():
                _loop(stmt, context)
            case ir.If():
                _branch(stmt, context)
            case ir.Call():
                _call(stmt, context)
            case ir.Transfer():
                _transfer(stmt, context)
            case ir.Wait() | ir.Barrier():
                pass  # one core, which makes its transfers itself
            case _:
                assert_never(stmt)


def _loop(stmt: ir.For, context: _Context) -> None:
    count = _number(stmt.extent)
    if _decides_extents(stmt) or count == 1:
        *others, last = range(count)
        alike = _folded(stmt.body, {stmt.var: (0, max(0, last - 1))})
        if others and not _decides_extents(replace(stmt, body=alike)):
            _loop(ir.For(stmt.var, Const(last), alike), context)
            others = []
        for i in (*others, last):
            _body(_folded(stmt.body, {stmt.var: (i, i)}), context)
        return
    writer = context.writer
    if len(writer.variables) == len(_LOOPS):
        raise ProgramError(f"more than {len(_LOOPS)} loops stand in each other")
    register = _LOOPS[len(writer.variables)]
    label = writer.label("for")
    writer.add(f"{register} = 0")
    writer.place(label)
    writer.variables[stmt.var] = register
    _body(stmt.body, context)
    del writer.variables[stmt.var]
    writer.add(f"{register} = {register} + 1")
    writer.constant("$11", count)
    writer.add(f"if ({register} != $11) {label}", "nop")


def _folded(body: tuple[ir.Stmt, ...], bounds: Bounds) -> tuple[ir.Stmt, ...]:
    """The statements simplified by the known values of a loop's variable."""
    fixed = {name: low for name, (low, high) in bounds.items() if low == high}
    return simplify_body(map_body(body, lambda e: fold(substitute(e, fixed), bounds)))


def _decides_extents(loop: ir.For) -> bool:
    """True if an extent inside the loop depends on its variable."""
    for stmt in walk(loop.body):
        match stmt:
            case ir.For(_, extent):
                found = [extent]
            case ir.Call(_, operands):
                found = [r.extent for o in operands for r in o.ranges]
                found += [e for o in operands if isinstance(o, ir.View) for e in o.shape]
            case ir.Transfer():
                found = [r.extent for r in stmt.ranges]
            case _:
                found = []
        if any(loop.var in free_vars(e) for e in found):
            return True
    return False


def _branch(stmt: ir.If, context: _Context) -> None:
    """Write the branches of an equality of two numbers; if it is constant, only the branch taken.
    Raises ProgramError for other conditions.
    """
    match stmt.condition:
        case Const(value):
            _body(stmt.then if value else stmt.orelse, context)
        case BinaryExpr("==", a, b):
            writer, other = context.writer, context.writer.label("else")
            writer.address("$11", "$0", a - b, 1, "$12")
            writer.add(f"if ($11 != $0) {other}", "nop")
            _body(stmt.then, context)
            if stmt.orelse:
                end = writer.label("end")
                writer.add(f"goto {end}", "nop")
                writer.place(other)
                _body(stmt.orelse, context)
                writer.place(end)
            else:
                writer.place(other)
        case condition:
            raise ProgramError(f"a Torrent has no code for the condition {condition}")


def _call(stmt: ir.Call, context: _Context) -> None:
    match stmt.primitive:
        case MatrixProduct() if updates_weights(stmt, context.program):
            _update(stmt, stmt.primitive, context)
        case MatrixProduct():
            _product(stmt, stmt.primitive, context)
        case Fill(0.0):
            _fill(stmt, context)
        case Map():
            _map(stmt, stmt.primitive, context)
        case Lookup():
            _lookup(stmt, stmt.primitive, context)
        case other:
            raise ProgramError(f"a Torrent has no code for {other.name!r}")


def _product(stmt: ir.Call, primitive: MatrixProduct, context: _Context) -> None:
    c, a, b = stmt.operands
    forms = primitive.matrices(stmt.operands, context.program)
    if not (isinstance(c, ir.Tile) and isinstance(a, ir.View) and isinstance(b, ir.Tile)):
        raise ProgramError("a Torrent multiplies what lies in its cache by weights in main memory")
    extents = {r: _number(x.extent) for o in (c, a) for r, x in zip(o.roles, o.ranges, strict=True)}
    sizes = [dtype(context.program.element_type(o)).size_bytes for o in stmt.operands]
    rows = [_number(form.leading_dimension) * s for form, s in zip(forms, sizes, strict=True)]
    product = calls.NodeProduct(
        m=extents["m"],
        n=extents["n"],
        k=extents["k"],
        factor_bytes=sizes[1],
        factor_row_bytes=rows[1],
        weight_row_bytes=rows[2],
        sum_row_bytes=rows[0],
        along_terms=forms[2].order == "column",
    )
    buffer = context.program.buffer(a.buffer)
    start = a.slot * buffer.elements + forms[1].offset_elements
    writer = context.writer
    writer.comment(f"{product.m} x {product.n} sums over {product.k}")
    _address(context, "$7", start, sizes[1], buffer.offset_bytes or 0)
    writer.address("$15", context.addresses[b.tensor], forms[2].offset_elements, sizes[2], "$12")
    writer.address("$16", context.addresses[c.tensor], forms[0].offset_elements, sizes[0], "$12")
    calls.write_product(writer, context.machine, product)


def _update(stmt: ir.Call, primitive: MatrixProduct, context: _Context) -> None:
    c, a, b = stmt.operands
    forms = primitive.matrices(stmt.operands, context.program)
    if not (isinstance(c, ir.Tile) and isinstance(a, ir.View) and isinstance(b, ir.View)):
        raise ProgramError("a Torrent updates weights in main memory by factors in its cache")
    extents = {role: _number(r.extent) for role, r in zip(c.roles, c.ranges, strict=True)}
    sizes = [dtype(context.program.element_type(o)).size_bytes for o in stmt.operands]
    update = calls.Update(
        extents["m"], extents["n"], _number(forms[0].leading_dimension) * sizes[0]
    )
    writer = context.writer
    writer.comment(f"an outer product added to {update.m} x {update.n} weights")
    for register, view, form, size in zip(("$7", "$17"), (a, b), forms[1:], sizes[1:], strict=True):
        buffer = context.program.buffer(view.buffer)
        start = view.slot * buffer.elements + form.offset_elements
        _address(context, register, start, size, buffer.offset_bytes or 0)
    writer.address("$18", context.addresses[c.tensor], forms[0].offset_elements, sizes[0], "$12")
    calls.write_update(writer, context.machine, update)


def _fill(stmt: ir.Call, context: _Context) -> None:
    (c,) = stmt.operands
    if not isinstance(c, ir.Tile):
        raise ProgramError("a Torrent fills sums in main memory")
    tensor = context.program.tensor(c.tensor)
    *_, columns = extents = [_number(r.extent) for r in c.ranges]
    rows = sum(extents) - columns
    strides = strides_of(tensor.shape)
    if len(extents) != 2:
        raise ProgramError(f"a Torrent fills matrices, found {len(extents)} dimensions")
    start: Expr = Const(0)
    for r, stride in zip(c.ranges, strides, strict=True):
        start = start + r.start * stride
    size = dtype(tensor.dtype).size_bytes
    context.writer.address("$16", context.addresses[c.tensor], start, size, "$12")
    calls.write_fill(context.writer, rows, columns, _number(strides[0]) * size)


def _map(stmt: ir.Call, primitive: Map, context: _Context) -> None:
    result, *operands = stmt.operands
    sizes = [dtype(context.program.element_type(o)).size_bytes for o in (*operands, result)]
    elements = Elements(primitive.expression, tuple(sizes[:-1]), sizes[-1])
    context.writer.comment(f"{primitive.expression} of {result.ranges[0].extent} elements")
    _streamed(elements, (*operands, result), context)


def _lookup(stmt: ir.Call, primitive: Lookup, context: _Context) -> None:
    result, sums, table = stmt.operands
    lookup = elements.TableLookups(_number(table.ranges[0].extent), primitive.shift)
    context.writer.comment(
        f"{result.ranges[0].extent} elements of a table of {lookup.entries}, shift {lookup.shift}"
    )
    _vector_address(elements.MIDDLE, table, elements.RESULT_BYTES, context)
    _streamed(lookup, (sums, result), context)


def _streamed(streamed: Streamed, tensors: Sequence[ir.Operand], context: _Context) -> None:
    """Write an element-wise computation: the operands' addresses, then the text."""
    for tensor, (operand, size) in enumerate(zip(tensors, streamed.sizes, strict=True)):
        _vector_address(streamed.pointers(tensor)[0], operand, size, context)
    count = _number(tensors[-1].ranges[0].extent)
    write_elements(context.writer, context.machine, streamed, count)


def _vector_address(register: str, operand: ir.Operand, size: int, context: _Context) -> None:
    """register = the address at which a vector in main memory begins."""
    if not isinstance(operand, ir.Tile) or len(operand.ranges) != 1:
        raise ProgramError("a Torrent maps vectors in main memory")
    start = operand.ranges[0].start
    context.writer.address(register, context.addresses[operand.tensor], start, size, "$12")


def _transfer(stmt: ir.Transfer, context: _Context) -> None:
    tensor, buffer = context.program.tensor(stmt.tensor), context.program.buffer(stmt.buffer)
    if stmt.direction != "get" or len(stmt.ranges) != 2:
        raise ProgramError("a Torrent copies matrices from main memory to its cache")
    strides, size = strides_of(tensor.shape), dtype(tensor.dtype).size_bytes
    start: Expr = Const(0)
    for r, stride in zip(stmt.ranges, strides, strict=True):
        start = start + r.start * stride
    rows, columns = (_number(r.extent) for r in stmt.ranges)
    if columns == _number(strides[0]) == 1:
        rows, columns = columns, rows  # a column that has the memory to itself is one row
    writer = context.writer
    writer.comment(f"{rows} x {columns} of {stmt.tensor}")
    writer.address("$15", context.addresses[stmt.tensor], start, size, "$12")
    place = stmt.slot * buffer.elements + stmt.first
    _address(context, "$16", place, size, buffer.offset_bytes or 0)
    calls.write_get(writer, rows, columns * size, _number(strides[0]) * size)


def _address(context: _Context, register: str, elements: Expr, size: int, start: int) -> None:
    """register = start + size * elements."""
    context.writer.address(register, "$0", elements + Const(0), size, "$12")
    if start:
        context.writer.sum(register, register, start, "$12")


def _number(e: Expr) -> int:
    """The value of an extent. Raises ProgramError unless it is a constant."""
    return int(evaluate(e, {}))


_ONE_CORE = {"mesh_rows": 1, "mesh_columns": 1, "rid": 0, "cid": 0}


@dataclass(frozen=True)
class Cns1Code:
    """Generates text in register transfer notation, and runs it on a simulated node."""

    def emit(self, program: ir.Program, machine: Machine) -> Artifact:
        """The source of an explicit program without parameters.

        Raises ProgramError for what there is no code for, CapacityError where buffers do not fit
        the data cache.
        """
        require_bound(program)
        program = instantiate(program, _ONE_CORE)
        naming = name_program(program)
        tensors = tensor_infos(program, naming)
        space = machine.space(CACHE)
        buffers = buffer_infos(program, {CACHE: space.available_bytes})
        source = f"{naming.artifact}.s"
        assembler = ("tilewright", "asm", source, "--table", TABLE, "-o", f"{naming.artifact}.o")
        return Artifact(
            naming.artifact,
            machine.target,
            {source: program_text(program, machine, tensors)},
            BuildPlan((BuildStep(f"{naming.artifact}.o", (source,), assembler),)),
            tensors,
            buffers,
            space.capacity_bytes,
            space.alignment_bytes,
        )

    def run(self, artifact: Artifact, machine: Machine, inputs: Arrays) -> dict[str, Array]:
        """Run the code on a simulated node; raises ShapeError for inputs that do not fit."""
        run = run_artifact(artifact, machine, inputs)
        places, _ = _places(artifact.tensors, machine)
        found = {}
        for info in (t for t in artifact.tensors if t.is_result):
            kind, start = dtype(info.dtype), places[info.name]
            size = int(np.prod(info.shape)) * kind.size_bytes
            raw = run.memory("main")[start : start + size]
            found[info.name] = raw.view(kind.numpy).reshape(info.shape).copy()
        return found


def run_artifact(
    artifact: Artifact, machine: Machine, inputs: Arrays | None = None, *, interleaved: bool = False
) -> CoreRun:
    """Run the code on a simulated node whose memory is refreshed as late as allowed; on zeros if no
    `inputs` are given. `interleaved`: other codes have run since the last time.

    Raises ShapeError for inputs that do not fit, CapacityError for tensors that exceed its memory.
    """
    table = with_refresh(node_table(machine), machine)
    places, end = _places(artifact.tensors, machine)
    room = table.memory("main").capacity_bytes
    if end > room:
        raise CapacityError(
            f"the tensors take {end} bytes of memory 'main', which has {room}",
            fix="divide the operator over more nodes",
        )
    main = np.zeros(end, np.uint8)
    for info in artifact.tensors:
        kind, start = dtype(info.dtype), places[info.name]
        size = int(np.prod(info.shape)) * kind.size_bytes
        if not info.is_given and info.kind != "updated":
            main[start : start + size] = 0x5A  # nobody has computed it yet
        elif inputs is not None:
            main[start : start + size] = _bytes(info, inputs)
    (text,) = artifact.files.values()
    registers = {r: places[t.name] for r, t in zip(ARGUMENTS, artifact.tensors, strict=False)}
    program = assembled(text, table, f"{artifact.name}.s")
    return run_node(program, main=main, registers=registers, interleaved=interleaved)


def _places(tensors: tuple[TensorInfo, ...], machine: Machine) -> tuple[dict[str, int], int]:
    """Addresses of the tensors, each at a new line of all chips, and the end of the last one."""
    lines, end = machine.section(Rdram).open_bytes, 0
    places = {}
    for info in tensors:
        places[info.name] = end
        size = int(np.prod(info.shape)) * dtype(info.dtype).size_bytes
        end += -(-size // lines) * lines
    return places, end


def _bytes(info: TensorInfo, inputs: Arrays) -> Array:
    kind = dtype(info.dtype)
    if info.name not in inputs or inputs[info.name].shape != info.shape:
        raise ShapeError(f"input tensor {info.name!r} of shape {info.shape} is missing")
    return np.ascontiguousarray(inputs[info.name], kind.numpy).view(np.uint8).ravel()


CODE = Cns1Code()
