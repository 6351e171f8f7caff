"""Transfers as athread_get and athread_put, each with a comment that says what moves (swATOP
4.5.1).
"""

from __future__ import annotations

from tilewright.common.dtypes import dtype
from tilewright.common.expr import Const, Expr, evaluate
from tilewright.ir.nodes import Program, Range, Transfer
from tilewright.machine import Machine
from tilewright.targets.c_expression import Scope, bounds_of, c_expression
from tilewright.targets.c_writer import CWriter
from tilewright.targets.sw26010.dma import TransferPlan, check_limits, plan_transfer
from tilewright.targets.sw26010.names import Naming


def emit_transfer(
    stmt: Transfer,
    program: Program,
    machine: Machine,
    naming: Naming,
    scope: Scope,
    writer: CWriter,
) -> None:
    """Write the requests that start one transfer; raises CapacityError for a descriptor that cannot
    hold them.
    """
    tensor, buffer = program.tensor(stmt.tensor), program.buffer(stmt.buffer)
    plan = plan_transfer(stmt, tensor, buffer, scope)
    check_limits(plan, tensor, machine, scope)
    size = dtype(tensor.dtype).size_bytes
    writer.comment(_description(stmt, plan, size, naming, scope))
    conditions = " && ".join(f"{_compared(e, scope)} > 0" for e in plan.guards)
    with writer.block(f"if ({conditions})" if conditions else ""):
        elements = int(evaluate(buffer.elements, {}))
        _requests(stmt, plan, elements, naming, scope, writer, size)


def _compared(e: Expr, scope: Scope) -> str:
    text = c_expression(e, scope)
    return f"({text})" if any(c in text for c in "<=&") else text


def _requests(
    stmt: Transfer,
    plan: TransferPlan,
    elements: int,
    naming: Naming,
    scope: Scope,
    writer: CWriter,
    size: int,
) -> None:
    name, tensor = naming.buffers[stmt.buffer], naming.tensors[stmt.tensor]
    constant = isinstance(stmt.slot, Const)
    slot = c_expression(stmt.slot, scope) if constant else "slot"
    start = c_expression(stmt.slot * elements, scope) if constant else f"slot * {elements}"
    if not constant:
        writer.line(f"const long slot = {c_expression(stmt.slot, scope)};")
    writer.line(f"const long offset = {c_expression(plan.offset, scope)};")
    if plan.outer:
        writer.line(f"long {', '.join(f'block{d}' for d in range(len(plan.outer)))};")
    memory, local = f"{tensor} + offset", name if start == "0" else f"{name} + {start}"
    packed = plan.block * plan.count
    place = ""
    for d, level in enumerate(plan.outer):
        count, stride = c_expression(level.count, scope), c_expression(level.stride, scope)
        writer.line(f"for (block{d} = 0; block{d} < {count}; block{d}++)")
        memory += f" + block{d} * {_factor(stride)}"
        place = f"({place} * {_factor(count)} + block{d})" if place else f"block{d}"
    if plan.outer:
        local += f" + {place} * {_factor(c_expression(packed, scope))}"
    with writer.block() if plan.outer else writer.flat():
        _request(stmt, plan, memory, local, f"&{name}_reply[{slot}]", scope, writer, size)
        writer.line(f"{name}_issued[{slot}] += 1;")


def _factor(text: str) -> str:
    return text if text.isalnum() else f"({text})"


def _request(
    stmt: Transfer,
    plan: TransferPlan,
    memory: str,
    local: str,
    reply: str,
    scope: Scope,
    writer: CWriter,
    size: int,
) -> None:
    once = plan.count == Const(1)
    nbytes = c_expression(plan.block * plan.count * size, scope)
    block = "0" if once else c_expression(plan.block * size, scope)
    gap = "0" if once else c_expression(plan.gap * size, scope)
    reply = f"(void *){reply}"
    if stmt.direction == "get":
        arguments = [f"(void *)({memory})", local, nbytes, reply, "0", gap, block]
        writer.call("athread_get", ["PE_MODE", *arguments])
    else:
        writer.call("athread_put", ["PE_MODE", local, memory, nbytes, reply, gap, block])


def _description(
    stmt: Transfer, plan: TransferPlan, size: int, naming: Naming, scope: Scope
) -> str:
    region = ", ".join(_range(r, scope) for r in stmt.ranges)
    tensor = f"{naming.tensors[stmt.tensor]}[{region}]"
    slot = f"{naming.buffers[stmt.buffer]}[{c_expression(stmt.slot, scope)}]"
    ends = f"get {tensor} to {slot}" if stmt.direction == "get" else f"put {slot} to {tensor}"
    total = plan.block * plan.count
    for level in plan.outer:
        total = total * level.count
    amount = f"{_amount(total, scope, size, plan.largest_elements)} bytes"
    if plan.count == Const(1) and not plan.outer:
        return f"{ends}: {amount}, contiguous"
    block = _amount(plan.block, scope, size, plan.largest_elements)
    return f"{ends}: {amount} in blocks of {block}"


def _amount(elements: Expr, scope: Scope, size: int, largest: int) -> str:
    if isinstance(elements, Const):
        return str(elements.value * size)
    return f"up to {min(bounds_of(elements, scope)[1], largest) * size}"


def _range(r: Range, scope: Scope) -> str:
    start, extent = c_expression(r.start, scope), c_expression(r.extent, scope)
    if r.step != Const(1):
        return f"at({start}, {extent}, {c_expression(r.step, scope)})"
    return start if extent == "1" else f"at({start}, {extent})"
