"""Lowering rules of machines like the SW26010."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.common.errors import ScheduleError, TilewrightError
from tilewright.ir.chains import ChainRules
from tilewright.ir.nodes import SCRATCHPAD
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.passes.lowering import Lowering
from tilewright.targets.sw26010.gemm.instances import square_mesh
from tilewright.targets.sw26010.gemm.shape import LARGEST_LINKS

CHAINS = ChainRules(overwrites=False, packs=False, most_links=LARGEST_LINKS)
"""Limits of the chain routine; packed operands are for single products only. Chains are priced by
their own code, so a machine whose file gives the cycles of a product has no chains.
"""


@dataclass(frozen=True)
class Sw26010Rules:
    """Scratchpads that DMA fills."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one machine; without the matrix product if its mesh is not square."""
        gemm = machine.section(GemmPrimitive)
        lacking: dict[type[Primitive], TilewrightError] = {}
        try:
            square_mesh(machine)
        except ScheduleError as error:
            lacking[MatrixProduct] = error
        derived = machine.core.instruction_table is not None and gemm.f64 is gemm.f32 is None
        chains = gemm.chains and derived and not lacking
        return Lowering(
            {SCRATCHPAD: machine.spm_available_bytes},
            block=(gemm.register_block_vectors, gemm.register_block_scalars),
            chains=CHAINS if chains else None,
            lacking=lacking,
        )


RULES = Sw26010Rules()
