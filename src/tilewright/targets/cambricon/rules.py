"""How programs are lowered for a Cambricon: activations and results in the vector scratchpad,
weights in the matrix scratchpad, every product rounded where it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.machine import Machine
from tilewright.passes.base import Pass
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import InferDma
from tilewright.passes.lowering import Lowering
from tilewright.targets.cambricon.round_elements import RoundElements
from tilewright.targets.cambricon.round_products import MATRIX, VECTOR, RoundProducts


def staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The usual passes, then rounding and a memory for each buffer."""
    return InferDma(stages, workspace=False), HandleBoundary(), RoundElements(), RoundProducts()


@dataclass(frozen=True)
class CambriconRules:
    """Two scratchpads; products of any extents."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one machine."""
        room = {name: machine.space(name).available_bytes for name in (VECTOR, MATRIX)}
        return Lowering(room, staging, partial_blocks=True, any_extent=True, fixed_point=True)


RULES = CambriconRules()
