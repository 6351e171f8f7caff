"""Fits three constants of `sw26010_measured` to measured rows of the public swDNN kernels.

The constants: the penalty of a taken branch, `primitives.gemm.switch_cycles`, and
`dma.shared_block_overhead_transactions`. Only rows of batch 128 with 128 or 256 input channels are
fitted. Prints, for each penalty, the best other two and their errors on those rows and on the rest.

`--by-size` fits nothing: it prints the errors of the machine, and the errors if a block that is
read costs the overhead that swDNN Table II shows for its size, instead of one for all sizes.

    python benchmarks/fit_measured.py        (needs scipy)
    python benchmarks/fit_measured.py --by-size
"""

from __future__ import annotations

import argparse
from functools import cache

import msgspec
import numpy as np
from scipy.optimize import least_squares

from tilewright.cost.timing import TransferShape, Value, transfer_cycles
from tilewright.ir.nodes import Direction
from tilewright.isa import load_table
from tilewright.machine import Machine, load_machine
from tilewright.papers.published import read_published
from tilewright.papers.swdnn import kernel
from tilewright.papers.swdnn.measured import MACHINE, MeasuredRow, gflops, simulate_row
from tilewright.papers.swdnn.table2 import BandwidthRow
from tilewright.simulate.kernel import engines

BASE = "sw26010"


def machine_with(switch_cycles: float, overhead: float) -> Machine:
    """The machine of the papers with two of the constants."""
    changes = {
        "primitives.gemm.switch_cycles": repr(float(switch_cycles)),
        "dma.shared_block_overhead_transactions": repr(float(overhead)),
    }
    return load_machine(BASE, changes)


def kernel_with(penalty: int):
    """The instruction table with a penalty of `penalty` cycles for a taken branch."""
    table = load_table(load_machine(BASE).core.instruction_table)
    issue = msgspec.structs.replace(table.issue, taken_branch_penalty_cycles=penalty)
    return msgspec.structs.replace(table, issue=issue)


def errors(rows: list[MeasuredRow], machine: Machine) -> np.ndarray:
    """log(simulated / measured) of each row."""
    ours = [gflops(simulate_row(row, machine), machine) for row in rows]
    return np.log(np.array(ours) / np.array([row.gflops for row in rows]))


@cache
def machine_for(block_bytes: int) -> Machine:
    """The fitted machine with Table II's overhead of blocks of this size, interpolated between its
    sizes; the overhead of shared blocks keeps its ratio.
    """
    machine = load_machine(MACHINE)
    dma, table = machine.dma, read_published("swdnn", "table2", BandwidthRow).rows
    size, peak = dma.transaction_bytes, dma.get.peak_bytes_per_second
    sizes = np.array([row.size_bytes for row in table])
    rates = np.array([row.get_gigabytes_per_second for row in table]) * 1e9
    overheads = peak * sizes / size / rates - np.ceil(sizes / size)
    own = float(np.interp(block_bytes, sizes, overheads))
    ratio = dma.shared_block_overhead_transactions / dma.get.block_overhead_transactions
    changes = {
        "dma.get.block_overhead_transactions": repr(own),
        "dma.shared_block_overhead_transactions": repr(own * ratio),
    }
    return load_machine(MACHINE, changes)


def by_size(
    machine: Machine, direction: Direction, shape: TransferShape, *, shared: bool = False
) -> Value:
    """Cycles of a transfer by Table II; its blocks all have one size, as in the plan."""
    return transfer_cycles(machine_for(int(shape.block_bytes)), direction, shape, shared=shared)


def compare_rules(rows: list[MeasuredRow]) -> None:
    """Print the errors under both rules, on the fitted rows, the others, all, and by pair of
    channels.
    """
    machine = load_machine(MACHINE)
    found = []
    for name, rule in (("one overhead", transfer_cycles), ("by size", by_size)):
        engines.transfer_cycles = rule
        found.append(errors(rows, machine))
        parts = [found[-1][[row.fitted == fitted for row in rows]] for fitted in (True, False)]
        print(f"{name:14}" + "  ".join(map(report, (*parts, found[-1]))))
    pairs = np.array([(row.in_channels, row.out_channels) for row in rows])
    for pair in np.unique(pairs, axis=0):
        own = (pairs == pair).all(axis=1)
        means = "  ".join(f"{100 * np.expm1(rule[own]).mean():+6.1f}" for rule in found)
        print(f"{pair[0]:5} to {pair[1]:3}  {means}")


def report(found: np.ndarray) -> str:
    away = 100 * np.abs(np.expm1(found))
    return f"{away.mean():5.2f} {away.max():6.2f}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--penalties", type=int, nargs="+", default=list(range(3, 10)))
    arguments.add_argument("--quick", action="store_true", help="one penalty, every fourth row")
    arguments.add_argument("--by-size", action="store_true", help="Table II's overheads, no fit")
    given = arguments.parse_args()
    rows = list(read_published("swdnn", "measured", MeasuredRow).rows)
    rows = rows[::4] if given.quick else rows
    fitted, held_out = [r for r in rows if r.fitted], [r for r in rows if not r.fitted]
    print(f"{len(fitted)} rows fitted, {len(held_out)} held out; errors in %: mean, worst")
    if given.by_size:
        compare_rules(rows)
        return
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
