"""Lowering rules for a core of a BWDSP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.ir.nodes import Program, Transfer
from tilewright.ir.visit import walk
from tilewright.machine import Machine
from tilewright.passes.base import Pass
from tilewright.passes.handle_boundary import HandleBoundary
from tilewright.passes.infer_dma import InferDma
from tilewright.passes.lowering import Lowering
from tilewright.targets.bwdsp.sections import READ, RESULTS


@dataclass(frozen=True)
class PlaceBuffers:
    """Place results in a memory of their own.

    before:  x_tile: buffer("f32", 256)                  y_tile: buffer("f32", 64)
    after:   x_tile: buffer("f32", 256, space="read")    y_tile: buffer("f32", 64, space="results")
    """

    name: ClassVar[str] = "place_buffers"

    def apply(self, program: Program) -> Program:
        """The program with a memory assigned to each buffer."""
        written = {
            s.buffer for s in walk(program.body) if isinstance(s, Transfer) and s.direction == "put"
        }
        buffers = tuple(
            replace(b, space=RESULTS if b.name in written else READ) for b in program.buffers
        )
        return replace(program, buffers=buffers)


def _staging(stages: Mapping[str, str]) -> tuple[Pass, ...]:
    """The usual passes, then a memory for each buffer."""
    return InferDma(stages, workspace=False), HandleBoundary(), PlaceBuffers()


@dataclass(frozen=True)
class BwdspRules:
    """Buffers that rotate between the ports and the core; products of any extents."""

    def lowering(self, machine: Machine) -> Lowering:
        room = {name: machine.space(name).available_bytes for name in (READ, RESULTS)}
        return Lowering(room, _staging, partial_blocks=True)


RULES = BwdspRules()
