"""Transfers as athread_get and athread_put, each with a comment that says what moves.

swATOP 4.5.1 and 4.7: source, destination, size, block and stride of each core's request.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.c.expression import Scope, bounds_of, c_expression
from tilewright.codegen.c.writer import CWriter
from tilewright.codegen.transfer_plan import TransferPlan, plan_transfer
from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Expr, Var, evaluate
from tilewright.ir.nodes import Program, Range, Transfer
from tilewright.machine import Machine
from tilewright.targets.sw26010.dma import check_limits
from tilewright.targets.sw26010.names import LaunchNaming


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


def emit_transfer(
    stmt: Transfer,
    program: Program,
    machine: Machine,
    naming: LaunchNaming,
    scope: Scope,
    writer: CWriter,
) -> None:
    """Write the requests that start one transfer.

    Raises CapacityError for a request that the DMA descriptor cannot hold.
    """
    tensor, buffer = program.tensor(stmt.tensor), program.buffer(stmt.buffer)
    plan = plan_transfer(stmt, tensor, buffer, scope)
    check_limits(plan, tensor, machine, scope)
    size = dtype(tensor.dtype).size_bytes
    writer.comment(_description(stmt, plan, size, naming, scope))
    with writer.block():
        request = _declare_request(stmt, plan, scope, size, writer)
        _start(request, int(evaluate(buffer.elements, {})), naming, writer)


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
