"""Both kernels of the CNS-1 on all 128 nodes, training in sets too: every value against the
fixed-point network.

Prints cycles and processor time; exits 1 where a value differs.
"""

from __future__ import annotations

import sys
import time

from tilewright.papers.cns1.all_nodes import SETS, simulate


def main() -> int:
    """Run recall, then training."""
    every = True
    for name in ("recall", "training", *SETS):
        begin = time.process_time()
        found = simulate(name)
        taken = time.process_time() - begin
        print(f"{name}: {found.cycles} cycles, {taken:.1f} s, same bits: {found.same_bits}")
        every &= found.same_bits
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
