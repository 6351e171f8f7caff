"""Sections that a family declares of its machine files, and those that families share.

A family's module `sections` has an object `SECTIONS`: the sections that its descriptions must and
may have, and which memories and engines. The two primitives here are what families' `prices` and
`cost.elementwise` take; a family whose primitives follow other laws has sections of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from msgspec import Struct

from tilewright.common.errors import MachineError
from tilewright.machine.model import Contradiction, Machine, Section
from tilewright.machine.parts import NonNegativeFloat, PositiveFloat, PositiveInt


@dataclass(frozen=True)
class Sections:
    """The kinds of sections of a family's files; `needs` are keys that cannot be missing.

    `problem` says what contradicts the family's own code in a machine that a user describes: key,
    expectation and finding, "" if nothing. Stored machines are read as they are. `training` is a
    line of published speed to show beside ours.
    """

    required: tuple[type[Section], ...] = ()
    optional: tuple[type[Section], ...] = ()
    needs: tuple[str, ...] = ()
    problem: Callable[[Machine], str] = field(default=lambda machine: "", compare=False)
    training: str = ""

    @property
    def kinds(self) -> tuple[type[Section], ...]:
        """The required kinds, then the optional ones."""
        return self.required + self.optional


class GemmTiming(Struct, frozen=True, forbid_unknown_fields=True):
    """Cycles of the matrix-multiply primitive for one element type: calibrated, or derived from
    its code by the family of machines whose code it is.

    With V and S the register blocks of one core's part along the vectorised and the other
    dimension, one call on per-core extents with k takes `call_cycles + V * row_cycles + V * S *
    mesh.columns * (k * cycles_per_k + block_cycles + switch_cycles)`; where the vectorised operand
    is strided, packing adds `ceil(k / lanes) * (sweep_cycles + V * row_sweep_cycles)`.
    """

    call_cycles: NonNegativeFloat
    row_cycles: float
    block_cycles: NonNegativeFloat
    cycles_per_k: PositiveFloat
    sweep_cycles: float
    row_sweep_cycles: NonNegativeFloat


class GemmPrimitive(Section, frozen=True, forbid_unknown_fields=True):
    """The matrix-multiply primitive that a whole group executes.

    Per core the vectorised extent is a multiple of `lanes * register_block_vectors`, the other a
    multiple of `register_block_scalars`, unless `partial_blocks` are taken. `chains` of products
    that add into one C are one call where the machine says so. `switch_cycles` is what
    a change of roles costs beyond what the instruction-level simulation sees.
    """

    key: ClassVar[str] = "primitives.gemm"

    lanes: PositiveInt
    register_block_vectors: PositiveInt
    register_block_scalars: PositiveInt
    switch_cycles: NonNegativeFloat
    f64: GemmTiming | None = None
    f32: GemmTiming | None = None
    partial_blocks: bool = False
    chains: bool = False

    def timing(self, dtype: str) -> GemmTiming | None:
        """The calibrated cycles for one element type, where the machine file gives them."""
        return self.f32 if dtype == "f32" else self.f64

    def given_timing(self, dtype: str) -> GemmTiming:
        """The calibrated cycles for one element type. Raises MachineError if the file has none."""
        given = self.timing(dtype)
        if given is None:
            raise MachineError(
                f"{self.key}.{dtype} is missing: what the matrix primitive takes is not derived",
                fix=f"give {self.key}.{dtype}.call_cycles and the others of its table",
            )
        return given

    def problems(self, machine: Machine) -> Iterator[Contradiction]:
        """Other lanes than the core's, or partial blocks that a mesh would have to divide."""
        if self.lanes != machine.core.vector_lanes:
            wanted = f"core.vector_lanes = {machine.core.vector_lanes}"
            yield "primitives.gemm.lanes", wanted, self.lanes
        if self.partial_blocks and machine.cores > 1:
            mesh = f"{machine.mesh.rows} x {machine.mesh.columns}"
            yield "primitives.gemm.partial_blocks", "a mesh of one core", mesh


class VectorPrimitive(Section, frozen=True, forbid_unknown_fields=True):
    """Cycles per vector of the elementwise and transform primitives: loads, operations, loop."""

    key: ClassVar[str] = "primitives.vector"

    load_cycles: NonNegativeFloat
    arithmetic_cycles: NonNegativeFloat
    loop_cycles: NonNegativeFloat
