"""One transfer as blocks, strided repetition, and loops around what one stride cannot say.

In: a transfer and its tensor. Out: a `TransferPlan`: `count` blocks of `block` contiguous elements
that lie `stride` elements apart in main memory and packed in the buffer, inside loops (swATOP 4.5.1
block, stride and size).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.c.expression import Scope, bounds_of
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, evaluate, product
from tilewright.ir.nodes import Buffer, Tensor, Transfer


@dataclass(frozen=True)
class Level:
    """`count` repetitions, `stride` elements apart."""

    count: Expr
    stride: Expr


@dataclass(frozen=True)
class TransferPlan:
    """A transfer in elements: loops (`outer`, outermost first) around requests of count blocks.

    `offset` leads from the start of the tensor to the first element, `stride` from block to block;
    `largest_elements` bounds what one core moves. Counts of zero or less move nothing.
    """

    offset: Expr
    outer: tuple[Level, ...]
    count: Expr
    block: Expr
    stride: Expr
    largest_elements: int


def plan_transfer(transfer: Transfer, tensor: Tensor, buffer: Buffer, scope: Scope) -> TransferPlan:
    """Split a region into requests; raises ProgramError where it cannot fit its slot or steps
    backwards.
    """
    shape = tuple(tensor.shape)
    strides = tuple(product(shape[d + 1 :]) for d in range(len(shape)))
    offset: Expr = Const(0)
    levels: list[Level] = []
    for r, stride in zip(transfer.ranges, strides, strict=True):
        if bounds_of(r.step, scope)[0] < 1:
            raise ProgramError(f"a region of {tensor.name!r} has step {r.step}; steps start at 1")
        offset = offset + r.start * stride
        if r.extent != Const(1):
            levels.append(Level(r.extent, r.step * stride))
    extents = tuple(r.extent for r in transfer.ranges)
    merged = merge_levels(levels)
    block = merged.pop().count if merged and merged[-1].stride == Const(1) else Const(1)
    outer, repeated = merged[:-1], merged[-1] if merged else None
    count: Expr = repeated.count if repeated else Const(1)
    stride = repeated.stride if repeated else block
    largest = _largest(transfer, tensor, buffer, extents, scope)
    return TransferPlan(offset, tuple(outer), count, block, stride, largest)


def merge_levels(levels: list[Level]) -> list[Level]:
    """Join neighbours that count through as one.

    >>> levels = [Level(Const(n), Const(stride)) for n, stride in ((4, 99), (8, 8), (8, 1))]
    >>> [(str(level.count), str(level.stride)) for level in merge_levels(levels)]
    [('4', '99'), ('64', '1')]
    """
    merged: list[Level] = []
    for level in reversed(levels):
        inner = merged[-1] if merged else None
        if inner and level.stride == inner.count * inner.stride:
            merged[-1] = Level(level.count * inner.count, inner.stride)
        else:
            merged.append(level)
    return merged[::-1]


def _largest(
    transfer: Transfer, tensor: Tensor, buffer: Buffer, extents: tuple[Expr, ...], scope: Scope
) -> int:
    slot = int(evaluate(buffer.elements, {}))
    least = 1
    most = 1
    for extent in extents:
        low, high = bounds_of(extent, scope)
        least *= max(low, 0)
        most *= max(high, 0)
    if least > slot:
        raise ProgramError(
            f"the transfer of {tensor.name!r} moves {least} elements, "
            f"slot {transfer.slot} of {buffer.name!r} holds {slot}",
            fix="give the buffer more elements or the transfer a smaller region",
        )
    return min(most, slot)
