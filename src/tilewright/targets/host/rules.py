"""How programs are lowered for this computer.

Cores address main memory themselves, so operands are used where they lie; what is copied is packed
by the core itself into buffers that caches hold, in any layout. The matrix primitive takes blocks
that are not full and whole chains of products, and can overwrite its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.ir.chains import ANY_CHAIN
from tilewright.ir.nodes import SCRATCHPAD
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.ops import Conv2d, Op
from tilewright.passes.base import Pass
from tilewright.passes.first_product import FirstProduct
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import InferDma
from tilewright.passes.lowering import Lowering
from tilewright.targets.host.sections import Caches

_MAX_ERROR = 1e-5
"""Error bound that F(4x4, 3x3) meets up to a thousand channels, and F(6x6, 3x3) does not."""


def _staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The passes for copies that bring tiles into any layout, and for a matrix primitive that can
    overwrite its result.
    """
    return InferDma(stages, workspace=False), HandleBoundary(), FirstProduct()


def _outdone(op: Op, machine: Machine) -> frozenset[str]:
    """The algorithms of a convolution that the model had behind others in all layers that were
    drawn: products of one channel where groups fill a vector, and copies of pixels and vectors of
    them where the results of a pixel are whole vectors and those of a row fill a register block.
    """
    if not isinstance(op, Conv2d):
        return frozenset()
    lanes = machine.core.lanes(op.out_dtype)
    one_each = op.groups == op.in_channels == op.out_channels
    if one_each and op.groups >= lanes and op.numerics.is_float:
        return frozenset(("explicit", "implicit", "direct", "pointwise"))
    channels, pixels = op.out_channels // op.groups, op.out_shape[-1]
    whole = channels % lanes == 0
    fills = whole and pixels >= machine.section(GemmPrimitive).register_block_scalars
    return frozenset(("explicit", "implicit")) if fills else frozenset()


@dataclass(frozen=True)
class HostRules:
    """Packed buffers in caches, operands in place, partial blocks, chains."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one machine; its buffers take half of a thread's part of the last cache."""
        gemm, caches = machine.section(GemmPrimitive), machine.find_section(Caches)
        near = machine.spm_available_bytes
        cached = caches.l3.capacity_bytes // 2 // machine.thread_count if caches else 0
        return Lowering(
            {SCRATCHPAD: max(near, cached)},
            _staging,
            block=(gemm.register_block_vectors, gemm.register_block_scalars),
            partial_blocks=gemm.partial_blocks,
            in_place=caches is not None,
            chains=ANY_CHAIN if gemm.chains else None,
            overlap=not machine.dma.synchronous,
            max_error=_MAX_ERROR,
            outdone=_outdone,
        )


RULES = HostRules()
