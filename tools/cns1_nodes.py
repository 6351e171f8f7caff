"""Both kernels of the CNS-1 on all 128 nodes: every value against the fixed-point network.

Prints cycles and processor time; exits 1 where a value differs.
"""

from __future__ import annotations

import sys
import time

from support.cns1_small import RATE, SHIFT, TABLE, drawn, recalled, trained
from tilewright.papers.cns1.cases import MODEL
from tilewright.targets.cns1.nodes.network import recall, train


def main() -> int:
    """Run recall, then training."""
    given, machine = drawn(MODEL.layers, 2, 1), MODEL.machine()
    begin = time.process_time()
    found = recall(machine, given.weights, given.inputs, TABLE, SHIFT)
    middle = time.process_time()
    same = bool((found.outputs == recalled(given)).all())
    print(f"recall: {found.run.cycles} cycles, {middle - begin:.1f} s, same bits: {same}")
    begin = time.process_time()
    after = train(machine, given.weights, given.inputs[0], given.wanted, TABLE, SHIFT, RATE)
    end, want = time.process_time(), trained(given)
    pairs = ((after.weights.hidden, want.hidden), (after.weights.outputs, want.outputs))
    equal = [(ours == theirs).all() for ours, theirs in pairs]
    print(f"training: {after.run.cycles} cycles, {end - begin:.1f} s, same bits: {all(equal)}")
    return 0 if same and all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
