"""Sections of a Cambricon description beyond every machine's: its units' timing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from tilewright.machine import Section, Sections
from tilewright.machine.model import Contradiction, Machine
from tilewright.machine.parts import NonNegativeInt, PositiveInt


class Units(Section, frozen=True, forbid_unknown_fields=True):
    """Cycles of the matrix and vector units, and the position of the binary point.

    A product takes `matrix_start` and a cycle for each block of `matrix_rows` by `matrix_columns`;
    a vector operation takes `vector_start` and, for each vector of lanes, a cycle,
    `divide_cycles` or `transcendental_cycles`.
    """

    key: ClassVar[str] = "units"

    matrix_rows: PositiveInt
    matrix_columns: PositiveInt
    matrix_start: NonNegativeInt
    vector_start: NonNegativeInt
    divide_cycles: PositiveInt
    transcendental_cycles: PositiveInt
    fraction_bits: NonNegativeInt

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """A matrix unit that does not multiply as fast as the core is said to."""
        rate = machine.core.of("i16").flops_per_cycle
        peak = 2 * self.matrix_rows * self.matrix_columns
        if rate != peak:
            wanted = f"2 * units.matrix_rows * units.matrix_columns = {peak}"
            yield "core.arithmetic.i16.flops_per_cycle", wanted, rate
        if self.fraction_bits > 15:
            yield "units.fraction_bits", "at most 15", self.fraction_bits


SECTIONS = Sections(
    required=(Units,), needs=("memory.vector", "memory.matrix", "memory.main", "engines.io")
)
