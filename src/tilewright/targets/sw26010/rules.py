"""How programs are lowered for machines like the SW26010."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.nodes import SCRATCHPAD
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.passes.lowering import Lowering


@dataclass(frozen=True)
class Sw26010Rules:
    """Scratchpads that DMA fills; the matrix primitive may take chains of products."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one machine."""
        gemm = machine.section(GemmPrimitive)
        return Lowering(
            {SCRATCHPAD: machine.spm_available_bytes},
            block=(gemm.register_block_vectors, gemm.register_block_scalars),
            chains=gemm.chains,
        )


RULES = Sw26010Rules()
