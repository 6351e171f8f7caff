"""Place each buffer in the memory that the core takes it from.

before:  a_tile: buffer("i16", 256)                     c_tile: buffer("i32", 64)
after:   a_tile: buffer("i16", 256, space="synapse")    c_tile: buffer("i32", 64, space="neuron")
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.ir.nodes import Call, Program, View
from tilewright.ir.primitives import MatrixProduct
from tilewright.ir.visit import walk


@dataclass(frozen=True)
class PlaceFactors:
    """The first factor of a product lies in the synapse memory, all else in the neuron memory."""

    name: ClassVar[str] = "place_factors"

    def apply(self, program: Program) -> Program:
        """The program with the memory of each buffer."""
        firsts = {
            call.operands[1].buffer
            for call in walk(program.body)
            if isinstance(call, Call) and isinstance(call.primitive, MatrixProduct)
            if isinstance(call.operands[1], View)
        }
        buffers = tuple(
            replace(b, space="synapse" if b.name in firsts else "neuron") for b in program.buffers
        )
        return replace(program, buffers=buffers)
