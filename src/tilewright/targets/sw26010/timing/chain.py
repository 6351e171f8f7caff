"""What a chain of products takes in one call of the matrix primitive: derived by simulating it.

In: an instruction table, a mesh and an element type. Out: the coefficients of a form that follows
the code of `gemm.chain`, and how far it is from the simulated cycles.
"""

from __future__ import annotations

from itertools import accumulate

import msgspec
import numpy as np
import numpy.typing as npt

from tilewright.codegen.fitting import fit_relative
from tilewright.common.expr import Value
from tilewright.isa import InstructionTable
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import Mesh
from tilewright.simulate.program import encode_program
from tilewright.targets.sw26010.gemm.kernel import gemm_kernel
from tilewright.targets.sw26010.gemm.shape import (
    LOCAL_MEMORY_BYTES,
    GemmShape,
    GemmVariant,
    Precision,
)
from tilewright.targets.sw26010.gemm.steps import chain_branches

CHAIN_SAMPLES = (
    *((1, 1, 2, 2), (1, 2, 8, 3), (2, 1, 4, 5), (1, 3, 16, 2), (2, 2, 3, 9), (1, 1, 40, 2)),
    *((3, 1, 24, 2), (1, 1, 12, 6), (1, 2, 60, 3), (1, 1, 1, 9), (2, 2, 1, 3)),
)
"""Register blocks along the vectors and across, k and links of the samples."""
_NAMES = ("1", "L", "V", "V S", "V S L", "V S L K", "V S L B", "V S L 1")


class ChainTiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cycles of a chain for one element type.

    With V and S register blocks as in `GemmTiming` and L links, a call takes `call_cycles + L *
    pair_cycles + V * row_cycles + V * S * mesh.columns * (block_cycles + switch_cycles + L *
    (link_cycles + k * cycles_per_k + B * branch_cycles))`, where B are the taken branches of the
    loop over k in one link (`steps.chain_branches`). With k = 1 a link takes `short_cycles`
    more: no iteration is left beside which distances could be read.
    """

    call_cycles: float
    pair_cycles: float
    row_cycles: float
    block_cycles: float
    link_cycles: float
    cycles_per_k: float
    branch_cycles: float
    short_cycles: float

    def cycles(self, terms: tuple[Value, ...]) -> Value:
        """Cycles of a call by its `chain_terms`, changes of roles beyond the code's aside."""
        coefficients = (getattr(self, name) for name in self.__struct_fields__)
        total: Value = 0
        for coefficient, term in zip(coefficients, terms, strict=True):
            total = total + coefficient * term
        return total


class DerivedChain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form's coefficients for one element type, and its relative errors over the samples."""

    timing: ChainTiming
    mean_error: float
    worst_error: float


def chain_terms(
    precision: Precision, mesh: int, vector: Value, scalar: Value, k: Value, links: Value
) -> tuple[Value, ...]:
    """What the coefficients of `ChainTiming` are multiplied with, in their order."""
    steps = vector * scalar * mesh
    branches = chain_branches(precision, mesh, k)
    linked = steps * links
    short = np.equal(k, 1)
    return 1, links, vector, steps, linked, linked * k, linked * branches, linked * short


def derive_chain(
    table: InstructionTable, mesh: int, precision: Precision, around: int
) -> DerivedChain:
    """Simulate samples on a mesh x mesh of cores and fit the form to them; `around` are the cycles
    of the C-callable part.
    """
    cycles = [around + _cycles(table, mesh, precision, *sample) for sample in CHAIN_SAMPLES]
    terms = [chain_terms(precision, mesh, *sample) for sample in CHAIN_SAMPLES]
    found = fit_relative(terms, cycles, _NAMES, "chain")
    errors = np.abs(np.asarray(terms, float) @ found / cycles - 1)
    timing = ChainTiming(*(round(float(value), 3) for value in found))
    mean, worst = (round(float(error), 5) for error in (errors.mean(), errors.max()))
    return DerivedChain(timing, mean, worst)


def _cycles(
    table: InstructionTable,
    mesh: int,
    precision: Precision,
    vector: int,
    scalar: int,
    k: int,
    links: int,
) -> int:
    """Cycles of the primitive's code, its frame aside."""
    shape = GemmShape(16 * vector, 4 * scalar, k, mesh=mesh, links=links)
    kernel = gemm_kernel(GemmVariant("m", "column", "row", precision), shape)
    memory, (pairs, c, end) = chain_memory(kernel.plan.operand_bytes, links, mesh * mesh)
    run = simulate_mesh(
        encode_program(kernel.instructions, table),
        Mesh(mesh, mesh),
        registers={"$16": pairs, "$18": c, "$19": end},
        local_memory=memory,
    )
    return run.cycles


def chain_memory(
    operand_bytes: tuple[int, int, int], links: int, cores: int
) -> tuple[npt.NDArray[np.uint8], tuple[int, int, int]]:
    """Local memories for a call of which only the time matters: all links have the same operands.
    Behind them the addresses of the pairs, of C and of what is free.
    """
    sizes = (-(-size // 32) * 32 for size in (*operand_bytes, 16 * links))
    a, b, c, pairs, end = accumulate(sizes, initial=0)
    memory = np.zeros((cores, LOCAL_MEMORY_BYTES), np.uint8)
    words = np.array([a, b] * links, np.int64).view(np.uint8)
    memory[:, pairs : pairs + len(words)] = words
    return memory, (pairs, c, end)
