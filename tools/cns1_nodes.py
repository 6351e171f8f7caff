"""Run recall and training of the CNS-1 on all 128 nodes, training in sets, too, and compare every
value with the fixed-point network. With `--large`, recall and training of 768M connections on all
1024 nodes, which need six gigabytes.

Prints cycles and processor time; exits with 1 if a value differs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

from tilewright.papers.cns1.all_nodes import SETS, recalled, trained
from tilewright.papers.cns1.cases import TableCell
from tilewright.simulate.runs import MeshRun

LARGE = TableCell(1024, "768M", "4.5 Mb")


def main(arguments: list[str]) -> int:
    """Run recall, then training."""
    runs: dict[str, Callable[[], tuple[MeshRun, bool]]] = {
        "recall": recalled,
        "training": partial(trained, 1),
    }
    runs |= {name: partial(trained, together) for name, together in SETS.items()}
    if arguments == ["--large"]:
        runs = {
            f"recall, {LARGE.name}": partial(recalled, LARGE),
            f"training, {LARGE.name}": partial(trained, 1, LARGE),
        }
    every = True
    for name, run in runs.items():
        begin = time.process_time()
        found, same = run()
        taken = time.process_time() - begin
        print(f"{name}: {found.cycles} cycles, {taken:.1f} s, same bits: {same}")
        every &= same
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
