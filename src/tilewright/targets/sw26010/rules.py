"""How programs are lowered for machines like the SW26010."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.common.errors import ScheduleError, TilewrightError
from tilewright.ir.nodes import SCRATCHPAD
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.passes.lowering import Lowering
from tilewright.targets.sw26010.gemm_instances import square_mesh


@dataclass(frozen=True)
class Sw26010Rules:
    """Scratchpads that DMA fills."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one machine: without the matrix product where its mesh is not square."""
        gemm = machine.section(GemmPrimitive)
        lacking: dict[type[Primitive], TilewrightError] = {}
        try:
            square_mesh(machine)
        except ScheduleError as error:
            lacking[MatrixProduct] = error
        return Lowering(
            {SCRATCHPAD: machine.spm_available_bytes},
            block=(gemm.register_block_vectors, gemm.register_block_scalars),
            lacking=lacking,
        )


RULES = Sw26010Rules()
