"""Runs the GEMM primitive on the simulated mesh and compares C with NumPy, bit for bit."""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.simulate.program import encode_program
from tilewright.simulate.runs import MeshRun
from tilewright.targets.sw26010.gemm.kernel import GemmKernel, gemm_kernel
from tilewright.targets.sw26010.gemm.shape import TABLE_BYTES, GemmShape, GemmVariant

MESH = 8


@dataclass(frozen=True)
class GemmRun:
    """A run: whether every element of C is exact, and how long it took."""

    kernel: GemmKernel
    mesh: MeshRun
    exact: bool

    @property
    def cycles(self):
        """Cycles until the last core has returned."""
        return self.mesh.cycles

    @property
    def efficiency(self):
        """Multiply-adds over cycles: 1 is the peak of the vector pipe."""
        return self.kernel.plan.shape.multiply_adds / self.mesh.cycles


def run_gemm(
    variant: GemmVariant, shape: GemmShape, *, seed=0, registers=None, communication=None
) -> GemmRun:
    """Random integers in A, B and C; the unused rest of every local memory is not a number."""
    kernel = gemm_kernel(variant, shape)
    rng = np.random.default_rng(seed)
    m, n, k, mesh_ = shape.m, shape.n, shape.k, shape.mesh
    cores = range(mesh_ * mesh_)
    a, b, c = (
        rng.integers(-8, 9, (mesh_ * rows, mesh_ * columns)).astype(float)
        for rows, columns in ((m, k), (k, n), (m, n))
    )
    element = f"f{variant.precision.element_bytes}"
    memory = np.full((len(cores), 65536 // variant.precision.element_bytes), np.nan, element)
    places, tables = addresses(kernel.plan)
    workspace = tables + TABLE_BYTES
    for core in cores:
        for whole, view in zip((a, b, c), views(kernel.plan, memory[core]), strict=True):
            view[:] = tile(whole, core, view.shape, mesh_)
    given = {"$16": places[0], "$17": places[1], "$18": places[2], "$19": tables, "$20": workspace}
    program = encode_program(kernel.instructions, kernel.table)
    mesh = simulate_mesh(
        program,
        SimulatedMesh(mesh_, mesh_, communication),
        registers=given | (registers or {}),
        local_memory=memory,
    )
    result = mesh.local_memory().view(element)
    expected = a @ b + c
    exact = all(
        np.array_equal(
            list(views(kernel.plan, result[core]))[2], tile(expected, core, (m, n), mesh_)
        )
        for core in cores
    )
    return GemmRun(kernel, mesh, exact)


def addresses(plan):
    """Addresses of A, B, C and of the tables, which the workspace follows: each 32-byte aligned."""
    ends = np.cumsum([-(-size // 32) * 32 for size in plan.operand_bytes])
    return (0, int(ends[0]), int(ends[1])), int(ends[2])


def views(plan, words):
    """A, B and C as matrices in a core's local memory."""
    shape, variant = plan.shape, plan.variant
    by_column = (
        (shape.m, shape.k, shape.lda, variant.a_layout == "column"),
        (shape.k, shape.n, shape.ldb, variant.b_layout == "column"),
        (shape.m, shape.n, shape.ldc, variant.vectorised == "m"),
    )
    places, _ = addresses(plan)
    for address, (rows, columns, leading, column_major) in zip(places, by_column, strict=True):
        leading = leading or -(-(rows if column_major else columns) // 4) * 4
        size = words.itemsize
        strides = (size, size * leading) if column_major else (size * leading, size)
        yield as_strided(words[address // size :], (rows, columns), strides)


def tile(whole, core, extents, mesh=MESH):
    row, column = divmod(core, mesh)
    rows, columns = extents
    return whole[row * rows : (row + 1) * rows, column * columns : (column + 1) * columns]
