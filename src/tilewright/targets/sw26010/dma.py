"""What the fields of one DMA descriptor can hold (athread_get / athread_put in PE_MODE)."""

from __future__ import annotations

from tilewright.codegen.c.expression import Scope, bounds_of
from tilewright.codegen.transfer_plan import TransferPlan
from tilewright.common.dtypes import dtype
from tilewright.common.errors import CapacityError
from tilewright.ir.nodes import Tensor
from tilewright.machine import Machine


def check_limits(plan: TransferPlan, tensor: Tensor, machine: Machine, scope: Scope) -> None:
    """Raise CapacityError where a field of the DMA descriptor cannot hold what is asked for."""
    limits, size = machine.dma.limits, dtype(tensor.dtype).size_bytes
    if limits is None:
        return
    blocks, most_elements = plan.blocks, plan.largest_elements
    block = min(bounds_of(blocks.length, scope)[1], most_elements) * size
    total = min(bounds_of(blocks.length * blocks.count, scope)[1], most_elements) * size
    gap = bounds_of(blocks.stride - blocks.length, scope)[1] * size
    smaller = "a schedule with a smaller tile"
    _check("size", total, limits.size_bytes, tensor, smaller)
    _check("block", block, limits.block_bytes, tensor, smaller)
    nearer = "a layout that stores the tile's dimensions next to each other"
    _check("stride", gap, limits.stride_bytes, tensor, nearer)


def _check(what: str, found: int, limit: int | None, tensor: Tensor, other: str) -> None:
    """Users choose no tile, so the fix begins with the number of the machine that they can set."""
    if limit is not None and found > limit:
        key = f"dma.limits.{what}_bytes"
        raise CapacityError(
            f"tensor {tensor.name!r}: a DMA request has a {what} of {found} bytes, "
            f"{key} is {limit}",
            fix=f"--set {key}={found} or more, or {other}",
        )
