"""Cycles of the matrix primitives, derived from their own code on a mesh of cores.

In: an element type, the size of a square mesh and an instruction table. Out: the coefficients of
the form of `primitive_terms`; those of a product are a `GemmTiming`.
Deriving them for another mesh or table than the shipped ones takes some seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilewright.common.deferred import Deferred
from tilewright.common.errors import MachineError
from tilewright.common.expr import Value
from tilewright.isa import InstructionTable, load_table
from tilewright.machine import GemmPrimitive, Machine
from tilewright.machine.sections import GemmTiming
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.simulate.program import encode_program
from tilewright.targets.sw26010.gemm.assembly import frame
from tilewright.targets.sw26010.gemm.instances import square_mesh
from tilewright.targets.sw26010.gemm.kernel import gemm_kernel
from tilewright.targets.sw26010.gemm.shape import (
    F32,
    F64,
    LOCAL_MEMORY_BYTES,
    MESH_STEPS,
    PRECISIONS,
    TABLE_BYTES,
    VECTOR_LANES,
    GemmPlan,
    GemmShape,
    GemmVariant,
    Precision,
)
from tilewright.targets.sw26010.gemm.steps import chain_branches
from tilewright.targets.sw26010.timing.derived import OWN, Derived

if TYPE_CHECKING:
    from tilewright import asm
else:  # heavy: the grammar of texts
    asm = Deferred("tilewright.asm")

PRODUCT, PACKING, CHAIN = "product", "packing", "chain"
Blocks = tuple[int, ...]
SAMPLES: dict[str, tuple[Blocks, ...]] = {
    PRODUCT: ((1, 1, 2), (1, 3, 8), (2, 1, 5), (1, 6, 16), (2, 3, 12), (3, 1, 33), (1, 2, 48)),
    PACKING: ((1, 1, 4), (1, 1, 16), (3, 1, 8), (2, 1, 24)),
    CHAIN: (
        *((1, 1, 2, 2), (1, 2, 8, 3), (2, 1, 4, 5), (1, 3, 16, 2), (2, 2, 3, 9), (1, 1, 40, 2)),
        *((3, 1, 24, 2), (1, 1, 12, 6), (1, 2, 60, 3), (1, 1, 1, 9), (2, 2, 1, 3)),
    ),
}
"""Register blocks along the vectors and across, k, and the links of a chain."""
_CALLEE = "callee"


@dataclass(frozen=True)
class MatrixPrimitive:
    """The matrix primitive of one element type on a mesh x mesh of cores; `chained`: C += sum of
    A_i B_i.
    """

    precision: Precision
    chained: bool = False
    mesh: int = MESH_STEPS

    @property
    def timed_as(self) -> str:
        """Its name among the timings."""
        return f"{CHAIN if self.chained else PRODUCT}_{self.precision.name}_{self.mesh}"

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes: a product, and the added cost of packing its vector operand; or a chain."""
        return (CHAIN,) if self.chained else (PRODUCT, PACKING)


def primitive_terms(
    primitive: MatrixPrimitive, mode: str, blocks: Sequence[Value]
) -> Sequence[Value]:
    """The terms of a call, with V and S register blocks, k, and of a chain L links.

    A product: 1, V, V S mesh, V S mesh k. Packing: sweeps of lanes along k, V sweeps. A chain:
    1, L, V, V S mesh = T, T L, T L k, T L B and T L (k = 1), where B are the taken branches of the
    loop over k in one link; with k = 1 no iteration is left beside which distances could be read.
    """
    vector, scalar, k, *links = blocks
    steps = vector * scalar * primitive.mesh
    if mode == PRODUCT:
        return 1, vector, steps, steps * k
    if mode == PACKING:
        sweeps = -(-k // VECTOR_LANES)
        return sweeps, sweeps * vector
    branches = chain_branches(primitive.precision, primitive.mesh, k)
    linked = steps * links[0]
    short = np.equal(k, 1)
    return 1, links[0], vector, steps, linked, linked * k, linked * branches, linked * short


def primitive_cycles(table_name: str, primitive: MatrixPrimitive, mode: str, blocks: Blocks) -> int:
    """Cycles of a call, or those added by packing."""
    table = load_table(table_name)
    if mode == PACKING:
        packed = _product_cycles(table, primitive, blocks, packs=True)
        return packed - _product_cycles(table, primitive, blocks)
    run = _chain_cycles if mode == CHAIN else _product_cycles
    return _frame_cycles(table) + run(table, primitive, blocks)


def _product_cycles(
    table: InstructionTable, primitive: MatrixPrimitive, blocks: Blocks, *, packs: bool = False
) -> int:
    """Cycles of the primitive's code, excluding its frame."""
    (vector, scalar, k), mesh = blocks, primitive.mesh
    variant = GemmVariant("m", "row" if packs else "column", "row", primitive.precision)
    kernel = gemm_kernel(variant, GemmShape(16 * vector, 4 * scalar, k, mesh=mesh))
    places = dict(zip(("$16", "$17", "$18", "$19", "$20"), _places(kernel.plan), strict=True))
    program = encode_program(kernel.instructions, table)
    return simulate_mesh(program, SimulatedMesh(mesh, mesh), registers=places).cycles


def _places(plan: GemmPlan) -> Iterator[int]:
    """Consecutive addresses of A, B, C, the tables and the workspace."""
    sizes = [-(-size // 32) * 32 for size in (*plan.operand_bytes, TABLE_BYTES)]
    return accumulate(sizes, initial=0)


def _chain_cycles(table: InstructionTable, primitive: MatrixPrimitive, blocks: Blocks) -> int:
    (vector, scalar, k, links), mesh = blocks, primitive.mesh
    shape = GemmShape(16 * vector, 4 * scalar, k, mesh=mesh, links=links)
    kernel = gemm_kernel(GemmVariant("m", "column", "row", primitive.precision), shape)
    memory, (pairs, c, end) = chain_memory(kernel.plan.operand_bytes, links, mesh * mesh)
    run = simulate_mesh(
        encode_program(kernel.instructions, table),
        SimulatedMesh(mesh, mesh),
        registers={"$16": pairs, "$18": c, "$19": end},
        local_memory=memory,
    )
    return run.cycles


def chain_memory(
    operand_bytes: tuple[int, int, int], links: int, cores: int
) -> tuple[npt.NDArray[np.uint8], tuple[int, int, int]]:
    """Local memories for a call that is only timed, so that all links have the same operands; with
    them the addresses of the pairs, of C, and of the free memory.
    """
    sizes = (-(-size // 32) * 32 for size in (*operand_bytes, 16 * links))
    a, b, c, pairs, end = accumulate(sizes, initial=0)
    memory = np.zeros((cores, LOCAL_MEMORY_BYTES), np.uint8)
    words = np.array([a, b] * links, np.int64).view(np.uint8)
    memory[:, pairs : pairs + len(words)] = words
    return memory, (pairs, c, end)


@cache
def _frame_cycles(table: InstructionTable) -> int:
    """Cycles that the C-callable part adds to a call of the primitive."""
    lines = [*frame(_CALLEE), f"{_CALLEE}:", "    ret $26"]
    placed = asm.assemble("\n".join(lines), table).instructions
    program = encode_program([p.instruction for p in placed], table)
    stack = {"$30": table.local_memory_bytes}
    return simulate_mesh(
        program, SimulatedMesh(1, 1, ideal_communication=True), registers=stack
    ).cycles


class _Products(Derived[MatrixPrimitive, Blocks]):
    def simulate(
        self, table: str, routine: MatrixPrimitive, mode: str, samples: Sequence[Blocks]
    ) -> Sequence[int]:
        return [primitive_cycles(table, routine, mode, blocks) for blocks in samples]


PRODUCTS = _Products(
    file=__file__,
    makers=(f"{OWN}/gemm",),
    frequent=lambda: [MatrixPrimitive(*of) for of in product(PRECISIONS.values(), (False, True))],
    samples=lambda _, mode: SAMPLES[mode],
    terms=primitive_terms,
)


def product_timing(machine: Machine, dtype: str) -> GemmTiming:
    """The cycles of the matrix primitive for one element type, from the machine file or else from
    the primitive's code. Raises MachineError if neither gives them, ScheduleError for a mesh that
    the primitive cannot run on.
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
    found = PRODUCTS.timing(table, MatrixPrimitive(_precision(dtype), mesh=square_mesh(machine)))
    return GemmTiming(*found[PRODUCT].coefficients, *found[PACKING].coefficients)


def chain_cycles(machine: Machine, dtype: str, blocks: Sequence[Value]) -> Value:
    """The cycles of a chain of products, which no machine file gives, excluding changes of roles
    beyond the code's; `blocks` as in `SAMPLES`. Raises MachineError and ScheduleError as
    `product_timing` does.
    """
    table = machine.core.instruction_table
    if table is None:
        raise MachineError(
            f"machine {machine.name!r} has no instruction table, from which the cycles of a chain "
            "of products are derived",
            fix="give core.instruction_table, or take primitives.gemm.chains away",
        )
    primitive = MatrixPrimitive(_precision(dtype), True, square_mesh(machine))
    terms = primitive_terms(primitive, CHAIN, blocks)
    return PRODUCTS.timing(table, primitive)[CHAIN].cycles(terms)


def _precision(dtype: str) -> Precision:
    return F32 if dtype == F32.name else F64
