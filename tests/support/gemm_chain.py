"""Runs a chain of products on the simulated mesh and compares C with NumPy, bit for bit."""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from support.gemm_mesh import tile
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.simulate.program import encode_program
from tilewright.targets.sw26010.gemm.kernel import gemm_kernel

LOCAL_BYTES = 65536


@dataclass(frozen=True)
class ChainRun:
    """Exactness of every element of C, cycles, and bytes of the code."""

    exact: bool
    cycles: int
    code_bytes: int


def run_chain(variant, shape, *, table=None, seed=0):
    """Random integers in C and in the operands of all links, which lie anywhere in the order."""
    kernel = gemm_kernel(variant, shape)
    size, cores = variant.precision.element_bytes, shape.mesh * shape.mesh
    rng = np.random.default_rng(seed)
    extents = ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
    a, b, c = (
        rng.integers(-8, 9, (count, shape.mesh * rows, shape.mesh * columns)).astype(float)
        for count, (rows, columns) in zip((shape.links, shape.links, 1), extents, strict=True)
    )
    places, result, pairs, tables = _places(kernel.plan, rng)
    memory = np.full((cores, LOCAL_BYTES // size), np.nan, f"f{size}")
    for core in range(cores):
        for link, (at_a, at_b) in enumerate(places):
            for whole, place, number in ((a, at_a, 0), (b, at_b, 1)):
                view = _view(kernel.plan, memory[core], place, number)
                view[:] = tile(whole[link], core, view.shape, shape.mesh)
        view = _view(kernel.plan, memory[core], result, 2)
        view[:] = tile(c[0], core, view.shape, shape.mesh)
        words = memory[core].view("u1")[pairs : pairs + 16 * shape.links].view("i8")
        words[:] = np.ravel(places)
    run = simulate_mesh(
        encode_program(kernel.instructions, table or kernel.table),
        SimulatedMesh(shape.mesh, shape.mesh),
        registers={"$16": pairs, "$17": 0, "$18": result, "$19": tables},
        local_memory=memory,
    )
    found, expected = run.local_memory().view(f"f{size}"), c[0] + (a @ b).sum(axis=0)
    exact = all(
        np.array_equal(
            _view(kernel.plan, found[core], result, 2),
            tile(expected, core, extents[2], shape.mesh),
        )
        for core in range(cores)
    )
    return ChainRun(exact, run.cycles, kernel.code_bytes)


def _places(plan, rng):
    """The pairs of addresses, and those of C, of the pairs themselves and of the tables."""
    links = plan.shape.links
    sizes = [-(-size // 32) * 32 for size in plan.operand_bytes]
    order, at, found = rng.permutation(2 * links), 0, [0] * (2 * links)
    for number in order:
        found[number] = at
        at += sizes[number % 2]
    result, pairs = at, at + sizes[2]
    tables = pairs + -(-16 * links // 32) * 32
    assert tables + plan.table_bytes <= LOCAL_BYTES
    return list(zip(found[::2], found[1::2], strict=True)), result, pairs, tables


def _view(plan, words, place, number):
    """Operand A, B or C (0, 1, 2) at an address of a core's local memory."""
    shape, variant = plan.shape, plan.variant
    rows, columns, leading, column_major = (
        (shape.m, shape.k, shape.lda, variant.a_layout == "column"),
        (shape.k, shape.n, shape.ldb, variant.b_layout == "column"),
        (shape.m, shape.n, shape.ldc, variant.vectorised == "m"),
    )[number]
    leading = leading or -(-(rows if column_major else columns) // 4) * 4
    size = words.itemsize
    strides = (size, size * leading) if column_major else (size * leading, size)
    return as_strided(words[place // size :], (rows, columns), strides)
