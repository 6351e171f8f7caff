"""How programs are lowered for machines like the SW26010."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.machine import Machine
from tilewright.machine.sections import GemmPrimitive
from tilewright.passes.lowering import Lowering


@dataclass(frozen=True)
class Sw26010Rules:
    """Scratchpads that DMA fills; the matrix primitive may take chains of products."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one machine."""
        return Lowering(machine.spm_available_bytes, chains=machine.section(GemmPrimitive).chains)


RULES = Sw26010Rules()
