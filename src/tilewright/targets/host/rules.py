"""How programs are lowered for this computer.

Cores address main memory themselves, so operands are used in place; copies, in any layout, are made
by the core into buffers that caches hold. The matrix primitive accepts partial blocks and whole
chains of products, and can overwrite its result.
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
"""Default error bound: F(4x4, 3x3) meets it up to a thousand channels, F(6x6, 3x3) does not."""


def _staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The passes to the staged stage, for copies into any layout, and for a matrix primitive that
    can overwrite its result.
    """
    return InferDma(stages, workspace=False), HandleBoundary(), FirstProduct()


def _outdone(op: Op, machine: Machine) -> frozenset[str]:
    """Algorithms of a convolution that were slower than others under the model in every layer of a
    random sample: products of one channel each where groups fill a vector; copies of pixels, and
    vectors of pixels, where a pixel's results are whole vectors and a row fills a register block.
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
        """The rules of one machine; buffers may use half of a thread's share of the last cache."""
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
