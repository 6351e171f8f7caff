"""Random layers, grids, strategies and tiles, executed on cores against the reference.

PYTHONPATH=tests python tools/fuzz_partition.py --count 2000 --seed 0
"""

from __future__ import annotations

import argparse
import sys

from support.partitions import random_case


def main() -> int:
    """1 where a case failed; its number reproduces it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    shares = sums = 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            case = random_case(seed)
            case.check()
        except Exception as error:
            print(f"case {seed} failed: {error}", file=sys.stderr)
            return 1
        shares += sum(len(p.division.shares) for p in case.plan.layers)
        sums += sum(p.division.partial for p in case.plan.layers)
    print(f"{options.count} cases from {options.seed}: {shares} shares, {sums} layers with "
          "divided sums, all equal to the reference")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
