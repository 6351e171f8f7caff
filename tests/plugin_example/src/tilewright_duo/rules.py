"""How programs are lowered for a Duo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.machine import Machine
from tilewright.passes.base import Pass
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import InferDma
from tilewright.passes.lowering import Lowering
from tilewright_duo.place_factors import PlaceFactors

SPACES = ("neuron", "synapse")


def staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The usual passes, then a memory for each buffer."""
    return InferDma(stages, workspace=False), HandleBoundary(), PlaceFactors()


@dataclass(frozen=True)
class DuoRules:
    """Two memories for buffers; products of any extents."""

    def lowering(self, machine: Machine) -> Lowering:
        """The rules of one machine."""
        room = {name: machine.space(name).available_bytes for name in SPACES}
        return Lowering(room, staging, partial_blocks=True)


RULES = DuoRules()
