"""Fits three constants of `sw26010_measured` to measured rows of the public swDNN kernels.

The constants: the penalty of a taken branch, `primitives.gemm.switch_cycles`, and
`dma.shared_block_overhead_transactions`. Only rows of batch 128 with 128 or 256 input channels take
part. Prints, for each penalty, the best other two and their errors on those rows and on the rest.

    python benchmarks/fit_measured.py        (needs scipy)
"""

from __future__ import annotations

import argparse

import msgspec
import numpy as np
from scipy.optimize import least_squares

from tilewright.isa import load_table
from tilewright.machine import Machine, load_machine
from tilewright.papers.published import read_published
from tilewright.papers.swdnn import kernel
from tilewright.papers.swdnn.measured import MeasuredRow, gflops, simulate_row

BASE = "sw26010"


def machine_with(switch_cycles: float, overhead: float) -> Machine:
    """The machine of the papers with two of the constants."""
    changes = {
        "primitives.gemm.switch_cycles": repr(float(switch_cycles)),
        "dma.shared_block_overhead_transactions": repr(float(overhead)),
    }
    return load_machine(BASE, changes)


def kernel_with(penalty: int):
    """The cost of a matrix product where a taken branch costs `penalty` cycles."""
    table = load_table(load_machine(BASE).core.instruction_table)
    issue = msgspec.structs.replace(table.issue, taken_branch_penalty_cycles=penalty)
    return msgspec.structs.replace(table, issue=issue)


def errors(rows: list[MeasuredRow], machine: Machine) -> np.ndarray:
    """log(simulated / measured) of each row."""
    ours = [gflops(simulate_row(row, machine), machine) for row in rows]
    return np.log(np.array(ours) / np.array([row.gflops for row in rows]))


def report(found: np.ndarray) -> str:
    away = 100 * np.abs(np.expm1(found))
    return f"{away.mean():5.2f} {away.max():6.2f}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--penalties", type=int, nargs="+", default=list(range(3, 10)))
    arguments.add_argument("--quick", action="store_true", help="one penalty, every fourth row")
    given = arguments.parse_args()
    rows = list(read_published("swdnn", "measured", MeasuredRow).rows)
    rows = rows[::4] if given.quick else rows
    fitted, held_out = [r for r in rows if r.fitted], [r for r in rows if not r.fitted]
    print(f"{len(fitted)} rows fitted, {len(held_out)} held out; errors in %: mean, worst")
    print("penalty  switch  overhead     fitted        held out      all")
    for penalty in [6] if given.quick else given.penalties:
        table = kernel_with(penalty)
        kernel.load_table = lambda name, table=table: table
        start = (20.0, 2.0)
        found = least_squares(
            lambda x: errors(fitted, machine_with(*np.maximum(x, 0))),
            start,
            x_scale=start,
            diff_step=1e-2,
            xtol=1e-4,
            max_nfev=12,
        ).x
        machine = machine_with(*found)
        parts = [errors(some, machine) for some in (fitted, held_out, rows)]
        print(
            f"{penalty:7} {found[0]:7.1f} {found[1]:9.2f}  " + "  ".join(map(report, parts)),
            flush=True,
        )


if __name__ == "__main__":
    main()
