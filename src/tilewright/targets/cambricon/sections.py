"""Sections of a Cambricon description beyond every machine's: its units' timing."""

from __future__ import annotations

from typing import ClassVar

from tilewright.machine import Section, Sections
from tilewright.machine.model import Machine
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

    def problem(self, machine: Machine) -> str:
        """A matrix unit that does not multiply as fast as the core is said to."""
        rate = machine.core.of("i16").flops_per_cycle
        if rate != 2 * self.matrix_rows * self.matrix_columns:
            return (
                f"core.arithmetic.i16.flops_per_cycle: expected 2 * units.matrix_rows * "
                f"units.matrix_columns = {2 * self.matrix_rows * self.matrix_columns}, found {rate}"
            )
        if self.fraction_bits > 15:
            return f"units.fraction_bits: expected at most 15, found {self.fraction_bits}"
        return ""


SECTIONS = Sections(
    required=(Units,), needs=("memory.vector", "memory.matrix", "memory.main", "engines.io")
)
