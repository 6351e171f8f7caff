"""Decomposition of one transfer into blocks of its tensor, packed in its buffer.

In: a transfer and its tensor. Out: a `TransferPlan`, with the region split as it is priced
(`ir.regions`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.codegen.c.expression import Scope, bounds_of
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Expr, evaluate, maximum
from tilewright.ir.nodes import Buffer, Tensor, Transfer
from tilewright.ir.regions import Blocks, Repeat, split_region, strides_of


@dataclass(frozen=True)
class TransferPlan:
    """A transfer in elements; counts of zero or less move nothing.

    `offset` is the tensor's element that the transfer starts at; `largest_elements` bounds the
    elements that one core moves.
    """

    offset: Expr
    blocks: Blocks
    largest_elements: int


def plan_transfer(transfer: Transfer, tensor: Tensor, buffer: Buffer, scope: Scope) -> TransferPlan:
    """Split a region into requests. Raises ProgramError beyond its slot, or for negative steps."""
    if transfer.first != Const(0):
        raise ProgramError(
            f"a transfer of {tensor.name!r} starts inside slot {transfer.slot} of {buffer.name!r}",
            fix="transfers of this machine fill slots from their first element on",
        )
    offset: Expr = Const(0)
    some: Expr = Const(1)  # 0 where a core has no index of a dimension of which it has at most one
    repeats: list[Repeat] = []
    for r, stride, size in zip(
        transfer.ranges, strides_of(tensor.shape), tensor.shape, strict=True
    ):
        if bounds_of(r.step, scope)[0] < 1:
            raise ProgramError(f"a region of {tensor.name!r} has step {r.step}; steps start at 1")
        offset = offset + r.start * stride
        low, high = bounds_of(r.extent, scope)
        if size != Const(1) and high != 1:
            repeats.append(Repeat(r.extent, r.step * stride))
        elif low < 1:
            some = some * (r.extent if low == 0 else maximum(0, r.extent))
    blocks = split_region(repeats, Const(1))
    largest = _largest(transfer, tensor, buffer, scope)
    return TransferPlan(offset, replace(blocks, length=some * blocks.length), largest)


def _largest(transfer: Transfer, tensor: Tensor, buffer: Buffer, scope: Scope) -> int:
    slot = int(evaluate(buffer.elements, {}))
    least = 1
    most = 1
    for r in transfer.ranges:
        low, high = bounds_of(r.extent, scope)
        least *= max(low, 0)
        most *= max(high, 0)
    if least > slot:
        raise ProgramError(
            f"the transfer of {tensor.name!r} moves {least} elements, "
            f"slot {transfer.slot} of {buffer.name!r} holds {slot}",
            fix="give the buffer more elements or the transfer a smaller region",
        )
    return min(most, slot)
