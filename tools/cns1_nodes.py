"""Both kernels of the CNS-1 on all 128 nodes: every value against the fixed-point network.

Prints cycles and processor time; exits 1 where a value differs.
"""

from __future__ import annotations

import sys
import time

from tilewright.papers.cns1.all_nodes import recalled, trained


def main() -> int:
    """Run recall, then training."""
    every = True
    for name, simulate in (("recall", recalled), ("training", trained)):
        begin = time.process_time()
        run, same = simulate()
        taken = time.process_time() - begin
        print(f"{name}: {run.cycles} cycles, {taken:.1f} s, same bits: {same}")
        every &= same
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
