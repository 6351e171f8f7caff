"""The matrix product in the structure of the public swDNN kernels: its numbers and its cycles."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.asm import assemble, link
from tilewright.cost.calls import PricedCall
from tilewright.ir.primitives import MatrixProduct
from tilewright.isa import load_table
from tilewright.machine import load_machine
from tilewright.papers.swdnn.kernel import ENTRY, kernel_cycles, kernel_text, swdnn_gemm_cost
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh

MESH = 8
PUBLISHED = "sw26010_cpe"
PUT_PUT_BLOCK = {16: 335, 32: 639, 48: 943}
"""Cycles of a block in the version that sends both operands, which the whole mesh waits for: the
public gemm.S under the issue rule of swDNN VI-A.
"""


@pytest.mark.parametrize("extents", [(16, 16, 16), (32, 8, 24), (16, 4, 3)])
def test_it_multiplies(extents: tuple[int, int, int]) -> None:
    """Per core input [k, m], weights [n, k] and output [n, m]; the output is added to."""
    pixels, channels, depth = extents
    table = load_table(PUBLISHED)
    image = load_image(link([assemble(kernel_text(*extents), table)], table), table)
    rng = np.random.default_rng(0)
    shapes = ((depth, pixels), (channels, depth), (channels, pixels))
    x, w, y = (rng.integers(-4, 5, (MESH, MESH, *shape)).astype(float) for shape in shapes)
    places = np.cumsum([0, *(8 * a * b for a, b in shapes)])
    memory = np.zeros((MESH * MESH, table.local_memory_bytes // 8))
    for core, words in enumerate(memory):
        parts = (t[divmod(core, MESH)].ravel() for t in (x, w, y))
        content = np.concatenate(list(parts))
        words[: content.size] = content
    names = ("$16", "$17", "$18", "$30")
    registers = {name: int(place) for name, place in zip(names, places, strict=True)}
    run = simulate_mesh(
        image.program,
        SimulatedMesh(MESH, MESH),
        entries=ENTRY,
        registers=registers,
        local_memory=memory,
    )
    for core in run.cores:
        row, column = divmod(core.core, MESH)
        expected = y[row, column] + sum(w[s, column] @ x[row, s] for s in range(MESH))
        found = core.local_memory[places[2] : places[3]].view(float).reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)


def block_cycles(depth: int, table: str) -> float:
    """Of a block in one step, from kernels of four and of eight blocks a step."""
    few, many = (kernel_cycles(16, channels, depth, table) for channels in (16, 32))
    return (many - few) / (4 * MESH)


def test_a_block_takes_what_the_public_kernel_takes() -> None:
    found = {depth: block_cycles(depth, PUBLISHED) for depth in PUT_PUT_BLOCK}
    assert found[32] - found[16] == found[48] - found[32] == 16 * 19
    for depth, published in PUT_PUT_BLOCK.items():
        assert found[depth] == pytest.approx(published, rel=0.03)


def test_the_measured_core_pays_a_taken_branch_in_every_iteration() -> None:
    each = (
        block_cycles(32, "sw26010_cpe_measured") - block_cycles(16, "sw26010_cpe_measured")
    ) / 16
    assert each == 19 + 6


def test_a_call_costs_its_cycles_and_those_of_each_change_of_roles() -> None:
    call = PricedCall(MatrixProduct("m"), {"m": 16, "n": 16, "k": 16}, "f64")
    cost = {
        cycles: swdnn_gemm_cost(
            load_machine("sw26010", {"primitives.gemm.switch_cycles": str(cycles)}), call
        )
        for cycles in (0, 10)
    }
    assert cost[0] == kernel_cycles(16, 16, 16, PUBLISHED)
    assert cost[10] - cost[0] == 10 * 4 * MESH
