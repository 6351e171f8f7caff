"""Sections that a family declares for its machine files, and sections that families share.

A family's module `sections` defines `SECTIONS`: the required and optional sections of its
descriptions, and their required memories and engines. Families' `prices` and `cost.elementwise` use
the two primitives here; a family whose primitives follow other laws has sections of its own.
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
    """The kinds of sections in a family's files; `needs` lists required keys.

    `problem` returns a contradiction between a user's machine and the family's code: key,
    expectation and finding, "" if there is none. Stored machines are not checked. `training` is a
    line on published training speed, shown beside ours.
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
    """Cycles of the matrix-multiply primitive for one element type: calibrated, or derived by the
    family from its code.

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

    Per core, the vectorised extent is a multiple of `lanes * register_block_vectors`, the other a
    multiple of `register_block_scalars`, unless `partial_blocks` are supported. With `chains`,
    products that add into one C are one call. `switch_cycles` is the cost of a change of roles
    beyond the instruction-level simulation.
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
        """The calibrated cycles for one element type; None if the machine file has none."""
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
        """Lanes that differ from the core's, or partial blocks on a mesh of several cores."""
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
