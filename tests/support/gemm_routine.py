"""Runs a routine of an emitted `<name>_gemm.S` on the simulated mesh: assembled, linked, called."""

from dataclasses import dataclass

import numpy as np

from support.gemm_mesh import MESH, addresses, tile, views
from tilewright.asm import assemble, link
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh
from tilewright.targets.sw26010.gemm.instances import GemmInstance

STACK_TOP = 65536 - 64
KEPT = (9, 10, 11, 12, 13, 14, 15, 29)
POISON = 1000.5


@dataclass(frozen=True)
class RoutineRun:
    """Exactness of C, registers that callers expect to find again, and cycles."""

    exact: bool
    keeps_registers: bool
    cycles: int


def caller(symbol: str) -> str:
    """A program that calls the routine and stops."""
    return f".text\n.extern {symbol}\n.globl start\nstart: bsr $26, {symbol}\nhalt\n"


def run_routine(text, symbol, instance: GemmInstance, table, *, seed=0) -> RoutineRun:
    """Random integers in A, B and C, which all links of a chain share; the unused rest of every
    local memory is not a number.
    """
    objects = [assemble(caller(symbol), table), assemble(text, table)]
    program = load_image(link(objects, table), table).program
    variant, shape, plan = instance.variant, instance.shape, instance.plan
    rng = np.random.default_rng(seed)
    sizes = ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
    a, b, c = (rng.integers(-8, 9, (MESH * r, MESH * q)).astype(float) for r, q in sizes)
    element = f"f{variant.precision.element_bytes}"
    memory = np.full((MESH * MESH, 65536 // variant.precision.element_bytes), np.nan, element)
    for core in range(MESH * MESH):
        for whole, view in zip((a, b, c), views(plan, memory[core]), strict=True):
            view[:] = tile(whole, core, view.shape)
    places, end = addresses(plan)
    registers = {f"${16 + i}": place for i, place in enumerate((*places, end))}
    if shape.links > 1:
        pairs = np.array(places[:2] * shape.links, np.int64).view(np.uint8)
        memory.view(np.uint8)[:, end : end + len(pairs)] = pairs
        registers = {"$16": end, "$17": places[2]}
    registers |= {"$30": STACK_TOP}
    registers |= {f"${r}": [POISON + r + lane / 8 for lane in range(4)] for r in KEPT}
    run = simulate_mesh(
        program,
        SimulatedMesh(MESH, MESH),
        entries="start",
        registers=registers,
        local_memory=memory,
    )
    result, expected = run.local_memory().view(element), shape.links * a @ b + c
    exact = all(
        np.array_equal(list(views(plan, result[i]))[2], tile(expected, i, sizes[2]))
        for i in range(MESH * MESH)
    )
    return RoutineRun(exact, all(_kept(core) for core in run.cores), run.cycles)


def _kept(core) -> bool:
    lanes = np.arange(4) / 8
    vectors = all(np.array_equal(core.registers[r], POISON + r + lanes) for r in KEPT[:-1])
    return vectors and int(core.integer_registers[30, 0]) == STACK_TOP
