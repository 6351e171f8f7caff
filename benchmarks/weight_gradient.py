"""Share of the peak of the gradients by weights of swATOP's convolutions, on four core groups.

    python benchmarks/weight_gradient.py [--quick] [--simulate] [--csv FILE]

The cases are the 75 pairs of channels and sizes of swATOP's Listing 1 at batch 128, 3 x 3 kernels
with a border, in double precision: groups divide the images, and partial gradients are added up.
Times are the model's, or the simulator's with `--simulate`, for the faster of two algorithms.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from statistics import mean

from shared.output import note, text_table
from shared.results import add_csv_option, write_results

from tilewright.common.errors import CapacityError
from tilewright.compiler.entry import compile as compiled
from tilewright.machine import Machine, load_machine
from tilewright.ops import Conv2d, conv2d
from tilewright.papers.swatop.listings import listing1
from tilewright.tune.choose import choose

MACHINES = ("sw26010", "sw26010_measured")
BATCH = 128
SEEDS = ("weight_gradient", "weight_gradient_taps")


def gradient_of(op: Conv2d) -> Conv2d:
    """The weight gradient as a convolution: images and input channels are swapped, and the kernel
    is the gradient of the result, over its pixels.
    """
    return conv2d(
        batch=op.in_channels,
        in_channels=op.batch,
        out_channels=op.out_channels,
        height=op.height,
        width=op.width,
        kernel=(op.out_height, op.out_width),
        padding=op.padding,
    )


def share(op: Conv2d, cycles: float, machine: Machine) -> float:
    """Share of the peak of all groups."""
    return op.flops / (cycles / machine.clock_hz * machine.peak_flops)


def row_of(op: Conv2d, name: str, *, simulate: bool) -> dict[str, object]:
    """One case on one machine."""
    machine, gradient = load_machine(name), gradient_of(op)
    ranked = {}
    for seed in SEEDS:
        with suppress(CapacityError):  # in blocks, the largest images are too large
            ranked[seed] = choose([gradient], machine, algorithm=seed, keep=1)[0].best
    best = min(ranked, key=lambda seed: ranked[seed].cycles)
    cycles = ranked[best].cycles
    if simulate:
        cycles = compiled(gradient, machine, algorithm=best).plan.only.cycles
    return {
        "machine": name,
        "in_channels": op.in_channels,
        "out_channels": op.out_channels,
        "size": op.height,
        "algorithm": best,
        "divided": ranked[best].partition.kind,
        "share": f"{share(gradient, cycles, machine):.3f}",
    }


def main() -> None:
    """Rank or simulate, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="three cases a machine")
    parser.add_argument("--simulate", action="store_true", help="simulate what is chosen")
    add_csv_option(parser)
    arguments = parser.parse_args()
    cases = [op for op in listing1() if op.batch == BATCH]
    rows: list[dict[str, object]] = []
    for name in MACHINES:
        for op in cases[:: 25 if arguments.quick else 1]:
            note(f"{name}: {op.describe()}")
            rows.append(row_of(op, name, simulate=arguments.simulate))
        own = [float(str(row["share"])) for row in rows if row["machine"] == name]
        print(f"{name}: mean {mean(own):.3f}, least {min(own):.3f} of {len(own)} cases")
    print(text_table(tuple(rows[0]), [tuple(row.values()) for row in rows]))
    write_results(
        arguments.csv,
        rows,
        title="Gradients by weights of swATOP's convolutions, batch 128, four groups",
        kind="simulated" if arguments.simulate else "model",
        processor="",
        conditions="share of the peak of four groups in double precision, partial sums added up",
        meanings={"divided": "what the groups divide"},
    )


if __name__ == "__main__":
    main()
