"""What the description of a BWDSP has beyond every machine's: what its primitives take."""

from __future__ import annotations

from typing import ClassVar

from tilewright.machine import Section, Sections, VectorPrimitive
from tilewright.machine.parts import NonNegativeFloat


class Product(Section, frozen=True, forbid_unknown_fields=True):
    """A product takes `start_cycles`; each vector of its sums `sums_cycles` to be read and written,
    and a cycle for each multiply-add of a vector.
    """

    key: ClassVar[str] = "primitives.product"

    start_cycles: NonNegativeFloat
    sums_cycles: NonNegativeFloat


SECTIONS = Sections(
    required=(Product, VectorPrimitive),
    needs=("memory.buffers", "memory.main"),
)
