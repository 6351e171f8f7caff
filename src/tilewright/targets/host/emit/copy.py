"""Emit transfers as copies that the core makes: row by row, or packed into panels.

In: a transfer and, if its buffer is packed, the panels. Out: loops around calls of the functions of
`packing`. A copy is complete when its call returns, so a wait emits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tilewright.codegen.artifact import Panels
from tilewright.codegen.c.elementwise_calls import CallContext
from tilewright.codegen.c.expression import bounds_of
from tilewright.codegen.transfer_plan import TransferPlan, plan_transfer
from tilewright.common.dtypes import DType, dtype
from tilewright.common.expr import Const, Expr, Var, evaluate, minimum, product
from tilewright.ir.nodes import Range, Transfer
from tilewright.ir.regions import strides_of
from tilewright.targets.host.emit.links import (
    block_of,
    outside_of,
    panel_distance,
    rounded_depth,
)


def copy_function(kind: DType) -> str:
    """Name of the function for plain copies."""
    return f"tw_copy_rows_{kind}"


def stream_function(kind: DType) -> str:
    """Name of the function for plain copies with non-temporal stores."""
    return f"tw_stream_rows_{kind}"


def pack_function(kind: DType, width: int) -> str:
    """Name of the function for copies into panels of `width`."""
    return f"tw_pack_{kind}_{width}"


def emit_copy_call(
    stmt: Transfer, panels: Panels | None, context: CallContext, *, streamed: bool = False
) -> None:
    """Write one transfer; if `streamed`, with non-temporal stores."""
    if panels is not None:
        tensor = context.program.tensor(stmt.tensor)
        strides = strides_of(tensor.shape)
        names = context.naming.tensors[stmt.tensor], context.naming.buffers[stmt.buffer]
        start = stmt.slot * int(evaluate(context.program.buffer(stmt.buffer).elements, {}))
        shape, kind = tuple(r.extent for r in stmt.ranges), dtype(tensor.dtype)
        packing = Packing(stmt.ranges, strides, shape, panels, kind, *names, start)
        emit_packing(packing, context)
        return
    tensor, buffer = context.program.tensor(stmt.tensor), context.program.buffer(stmt.buffer)
    plan = plan_transfer(stmt, tensor, buffer, context.scope)
    start = stmt.slot * int(evaluate(buffer.elements, {}))
    with context.writer.block():
        kind = dtype(tensor.dtype)
        function = stream_function(kind) if streamed else copy_function(kind)
        _nested(stmt, plan, start, function, context)


def _nested(
    stmt: Transfer, plan: TransferPlan, start: Expr, function: str, context: CallContext
) -> None:
    """Write a copy of equidistant rows, inside loops over the repetitions of a region beyond it."""
    blocks = plan.blocks
    counts = [repeat.count for repeat in blocks.outer]
    inner = _with_counters(context, counts)
    at: Expr = plan.offset
    packed: Expr = Const(0)
    for number, repeat in enumerate(blocks.outer):
        at = at + Var(_counter(number)) * repeat.stride
        packed = packed * repeat.count + Var(_counter(number))
    local = start + packed * (blocks.count * blocks.length)
    memory = _plus(context.naming.tensors[stmt.tensor], at, inner)
    buffer = _plus(context.naming.buffers[stmt.buffer], local, inner)
    block, count, stride = (inner.c(e) for e in (blocks.length, blocks.count, blocks.stride))
    rows = [count, block, block]
    if stmt.direction == "get":
        arguments = [*rows, memory, stride, buffer, block]
    else:
        arguments = [*rows, buffer, block, memory, stride]
    with context.writer.block(_loops(counts, context)) if counts else context.writer.flat():
        context.writer.call(function, arguments)


@dataclass(frozen=True)
class Packing:
    """A region of `shape` to pack: `ranges` of the tensor that C calls `source`, with that tensor's
    `strides`; its panels begin `start` elements into `target`.
    """

    ranges: tuple[Range, ...]
    strides: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    panels: Panels
    kind: DType
    source: str
    target: str
    start: Expr


def emit_packing(packing: Packing, context: CallContext) -> None:
    """Write the copy of a region into panels. Only constants have blocks or several panels
    together, and these are packed as a whole.
    """
    panels, shape = packing.panels, packing.shape
    taps = product(e for _, e in outside_of(shape, panels))
    parts = []
    if panels.together > 1:
        each = taps * rounded_depth(shape, panels)
        parts.append(_Part("column", panels.across, panels.columns, each))
    if panels.block:
        parts.append(_Part("first", panels.depth, panels.block, taps * panels.columns))
    _emit_parts(parts, packing, Const(0), context)


class _Part(NamedTuple):
    """A split of one dimension into parts of `size` indices, with `each` elements of the target per
    index; `name` is the variable of the loop over the parts.
    """

    name: str
    along: int
    size: int
    each: Expr


def _emit_parts(
    parts: Sequence[_Part], packing: Packing, before: Expr, context: CallContext
) -> None:
    """Write the copies of all parts, from `before` elements into the target on."""
    if not parts:
        _emit_block(packing, before, context)
        return
    name, along, size, each = parts[0]
    extent = packing.ranges[along].extent
    last = int(evaluate(extent, {})) - 1
    if last < size:
        _emit_parts(parts[1:], packing, before, context)
        return
    loop = f"for (long {name} = 0; {name} < {context.c(extent)}; {name} += {size})"
    with context.writer.block(loop):
        scope = context.scope.with_symbol(name, name, (0, last))
        part = Range(Var(name), minimum(size, extent - Var(name)))
        ranges = tuple(part if d == along else r for d, r in enumerate(packing.ranges))
        own, inner = replace(packing, ranges=ranges), replace(context, scope=scope)
        _emit_parts(parts[1:], own, before + Var(name) * each, inner)


def _emit_block(packing: Packing, before: Expr, context: CallContext) -> None:
    """Write the copy of one part, from `before` elements into the target on."""
    ranges, strides, panels = packing.ranges, packing.strides, packing.panels
    outside = [d for d in range(len(ranges)) if d not in (panels.across, panels.depth)]
    looped = [d for d in outside if ranges[d].extent != Const(1)]
    counts = [ranges[d].extent for d in looped]
    inner = _with_counters(context, counts)
    at: Expr = Const(0)
    packed: Expr = Const(0)
    for d, (r, stride) in enumerate(zip(ranges, strides, strict=True)):
        at = at + r.start * stride
        if d in looped:
            at = at + Var(_counter(looped.index(d))) * r.step * stride
            packed = packed * r.extent + Var(_counter(looped.index(d)))
    across, depth = ranges[panels.across], ranges[panels.depth]
    shape = packing.shape
    packed = packed * block_of(shape, panels) * panels.columns + before
    arguments = [
        inner.c(across.extent),
        inner.c(depth.extent),
        _plus(packing.source, at, inner),
        inner.c(across.step * strides[panels.across]),
        inner.c(depth.step * strides[panels.depth]),
        _plus(packing.target, packing.start + packed, inner),
        inner.c(panel_distance(shape, panels)),
    ]
    with context.writer.block(_loops(counts, context)) if counts else context.writer.flat():
        context.writer.call(pack_function(packing.kind, panels.width), arguments)


def _counter(number: int) -> str:
    return f"block{number}"


def _with_counters(context: CallContext, counts: Sequence[Expr]) -> CallContext:
    """The context inside loops with these `counts`."""
    scope = context.scope
    for number, count in enumerate(counts):
        name = _counter(number)
        last = max(bounds_of(count, context.scope)[1] - 1, 0)
        scope = scope.with_symbol(name, name, (0, last))
    return CallContext(context.program, context.naming, scope, context.writer)


def _loops(counts: Sequence[Expr], context: CallContext) -> str:
    names = [_counter(number) for number in range(len(counts))]
    return " ".join(
        f"for (long {name} = 0; {name} < {context.c(count)}; {name}++)"
        for name, count in zip(names, counts, strict=True)
    )


def _plus(base: str, offset: Expr, context: CallContext) -> str:
    return base if offset == Const(0) else f"{base} + {context.c(offset)}"
