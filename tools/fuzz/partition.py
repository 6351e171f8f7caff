"""Random layers, grids, strategies and tiles, executed on cores against the reference.

PYTHONPATH=tests:tools python -m fuzz.partition --count 2000 --seed 0

With --programs cores compute by their programs, and after that LeNet-5, AlexNet and a block of
ResNet-50, each different part of them on grids of 7x8, 4x1, 3x5 and 1x1.
"""

from __future__ import annotations

import argparse
import sys

from support.core_programs import check_parts, doubles
from support.partitions import GRIDS, check_layers, random_case, residual_block
from tilewright.graph import network
from tilewright.machine import Machine, load_machine
from tilewright.partition.parts import by_reference
from tilewright.targets.bwdsp.division import programs_of
from tilewright.targets.bwdsp.sections import core_machine


def main() -> int:
    """Exit code 1 if a case failed; its number reproduces it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", action="store_true")
    options = parser.parse_args()
    core = core_machine(load_machine("bwdsp-56"))
    computes = programs_of(doubles(core), "f64").compute if options.programs else by_reference
    parts = sums = 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            case = random_case(seed)
            case.check(computes)
        except Exception as error:
            print(f"case {seed} failed: {error}", file=sys.stderr)
            return 1
        parts += sum(len(p.division.parts) for p in case.plan.layers)
        sums += sum(p.division.partial for p in case.plan.layers)
    print(f"{options.count} cases from {options.seed}: {parts} parts, {sums} layers with "
          "divided sums, all equal to the reference")  # fmt: skip
    if options.programs:
        _networks(core)
    return 0


def _networks(core: Machine) -> None:
    """Check parts of networks on cores; raises AssertionError if one differs."""
    whole = [network(name, 1, dtype="f32") for name in ("lenet5", "alexnet")]
    for net in (*whole, residual_block("f32")):
        for cores in GRIDS:
            parts = check_parts(net, cores, programs_of(core, "f32"))
            check_layers(net, cores)
            print(f"{net.name} on {cores} cores: every layer equals that of one core bit for bit, "
                  f"and {parts} different parts by their programs the reference")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
