"""Speed of the instruction-level simulator: a matrix product on all 64 cores, checked.

    python benchmarks/instruction_simulator.py [--size 256] [--repeats 3] [--csv FILE]

Prints instructions and core cycles simulated per second of one host core (process time).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from mesh_gemm import mesh_gemm, mesh_images, mesh_result
from shared.results import add_csv_option, write_results

from tilewright.isa import load_table
from tilewright.simulate.instruction_level import simulate_mesh
from tilewright.simulate.launch import SimulatedMesh, UnitOrder
from tilewright.simulate.runs import MeshRun


def measure(size: int, unit_order: UnitOrder, repeats: int) -> dict[str, object]:
    """Simulate an n x n x n product; prints and returns the speed of the fastest repeat."""
    program = mesh_gemm(load_table("sw26010_cpe"), size, size, size)
    generator = np.random.default_rng(0)
    a, b, c = (generator.integers(-9, 9, (size, size)).astype(float) for _ in range(3))
    images = mesh_images(a, b, c)
    best, run = float("inf"), None
    for _ in range(repeats + 1):  # the first call also compiles
        start = time.process_time()
        run = simulate_mesh(
            program, SimulatedMesh(8, 8), local_memory=images, unit_order=unit_order
        )
        best = min(best, time.process_time() - start)
    assert isinstance(run, MeshRun)
    if not np.array_equal(mesh_result(run, size, size, size), c + a @ b):
        raise SystemExit("the product is wrong")
    stalls = ", ".join(f"{cause} {cycles}" for cause, cycles in sorted(run.stalls().items()))
    print(
        f"{size}^3, {unit_order}: {run.instructions} instructions, {run.cycles} cycles, "
        f"{best:.3f} s; "
        f"{run.instructions / best / 1e6:.1f} M instructions/s, "
        f"{64 * run.cycles / best / 1e6:.1f} M core cycles/s; stalls: {stalls}"
    )
    return {
        "product": f"{size} x {size} x {size}",
        "units": unit_order.replace("_", " "),
        "instructions": run.instructions,
        "mesh_cycles": run.cycles,
        "process_seconds": best,
        "million_instructions_per_second": round(run.instructions / best / 1e6, 1),
        "million_core_cycles_per_second": round(64 * run.cycles / best / 1e6, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    add_csv_option(parser)
    arguments = parser.parse_args()
    orders: tuple[UnitOrder, ...] = ("in_order", "decoupled")
    write_results(
        arguments.csv,
        [measure(arguments.size, order, arguments.repeats) for order in orders],
        title="Speed of the instruction-level simulator",
        kind="measured",
        conditions=f"a matrix product on 8 x 8 cores, process time of one processor, least of "
        f"{arguments.repeats + 1}",
    )
