"""Efficiency of the SW26010's matrix primitive: multiply-adds over simulated cycles, by depth.

    python benchmarks/gemm_efficiency.py [--quick] [--csv FILE]

A core's block of C has 16 x 48 elements, with a depth of k. Each routine is simulated as it is
emitted, stack frame included. "packing": the vectorised operand is strided and packed first.
"""

from __future__ import annotations

import argparse

from shared.output import note, text_table
from shared.results import add_csv_option, write_results

from tilewright.cost.calls import PricedCall
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine, load_machine
from tilewright.targets.sw26010.gemm.exact import exact_gemm_cost

MACHINES = ("sw26010", "sw26010_measured")
M, N, DEPTHS = 16, 48, (4, 8, 16, 32, 48)
VECTOR_LANES = 4


def efficiency_percent(machine: Machine, k: int, dtype: str, *, packing: bool) -> float:
    """One call's share of the peak, one vector multiply-add per cycle."""
    product = MatrixProduct("m", workspace="workspace" if packing else None)
    cycles = exact_gemm_cost()(machine, PricedCall(product, {"m": M, "n": N, "k": k}, dtype))
    return 100 * M * N * k * machine.mesh.columns / VECTOR_LANES / float(cycles)


def row_of(name: str, k: int) -> dict[str, object]:
    """The table's row of one depth on one machine, with all variants."""
    note(f"{name}, k = {k}")
    machine = load_machine(name)
    row: dict[str, object] = {"machine": name, "k_per_core": k}
    for dtype in ("f64", "f32"):
        for packing in (False, True):
            column = f"{dtype}_packing_percent" if packing else f"{dtype}_percent"
            row[column] = f"{efficiency_percent(machine, k, dtype, packing=packing):.1f}"
    return row


def main() -> None:
    """Simulate, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one machine, one depth")
    add_csv_option(parser)
    arguments = parser.parse_args()
    cases = [(name, k) for name in MACHINES for k in DEPTHS]
    rows = [row_of(name, k) for name, k in cases[: 1 if arguments.quick else None]]
    print(text_table(tuple(rows[0]), [tuple(row.values()) for row in rows]))
    write_results(
        arguments.csv,
        rows,
        title="Efficiency of the matrix primitive",
        kind="simulated",
        processor="",
        conditions=f"multiply-adds over cycles of whole calls as emitted, {M} x {N} elements of C "
        "per core",
        meanings={
            "f64_packing_percent": "the vectorised operand is strided and packed first",
            "f32_packing_percent": "the same",
        },
    )


if __name__ == "__main__":
    main()
