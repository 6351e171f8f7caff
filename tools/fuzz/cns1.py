"""Random kernels of a Torrent on the simulated node, each held against the fixed-point reference.

PYTHONPATH=tests:tools python -m fuzz.cns1 --count 500 --seed 0
"""

import argparse
import sys

import numpy as np

from support.cns1_shapes import agrees, drawn
from tilewright.machine import load_machine


def main() -> int:
    """Exit code 0 if every kernel agrees; else the first that does not is printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random, machine = np.random.default_rng(arguments.seed), load_machine("cns1-128")
    counts: dict[str, int] = {}
    for _ in range(arguments.count):
        shape = drawn(random)
        if not agrees(machine, shape):
            print(f"differs: {shape}")
            return 1
        counts[shape.kind] = counts.get(shape.kind, 0) + 1
    print(f"{arguments.count} kernels give the reference's bits: {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
