"""What the emitted matrix primitives take on a machine's cores."""

from __future__ import annotations

from tilewright.common.errors import MachineError
from tilewright.machine import GemmPrimitive, Machine
from tilewright.machine.sections import GemmTiming
from tilewright.targets.sw26010.gemm.instances import square_mesh
from tilewright.targets.sw26010.timing.chain import ChainTiming
from tilewright.targets.sw26010.timing.gemm import chain_timing, gemm_timing


def product_timing(machine: Machine, dtype: str) -> GemmTiming:
    """The cycles of the matrix primitive for one element type: as the machine file says, else as
    they are derived from the primitive's code. Raises MachineError where there is nothing to derive
    them from, ScheduleError for a mesh that the primitive cannot run on.
    """
    given, table = machine.section(GemmPrimitive).timing(dtype), machine.core.instruction_table
    if given is not None:
        return given
    if table is None:
        raise MachineError(
            f"machine {machine.name!r} has neither an instruction table, from which the cycles of "
            f"its matrix primitive are derived, nor primitives.gemm.{dtype}",
            fix="give core.instruction_table",
        )
    return gemm_timing(table, square_mesh(machine), dtype).timing


def linked_timing(machine: Machine, dtype: str) -> ChainTiming:
    """The same of a chain of products, which no machine file gives."""
    table = machine.core.instruction_table
    if table is None:
        raise MachineError(
            f"machine {machine.name!r} has no instruction table, from which the cycles of a chain "
            "of products are derived",
            fix="give core.instruction_table, or take primitives.gemm.chains away",
        )
    return chain_timing(table, square_mesh(machine), dtype).timing
