"""Random definitions as networks of one core group: each plan means what the definition means.

    PYTHONPATH=tests python tools/fuzz_definitions.py [COUNT [SEED]]

Definitions have up to seven axes and three operands, borders, steps either way and joint axes. The
plan is interpreted and simulated; numbers are small integers, so that both sides are exact. What no
stage computes is counted by reason. Prints what fails.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter

import numpy as np

from support.definitions import by_index, integers_for, network_of, random_definition
from support.plans import GROUP, quick_search
from tilewright.common.errors import GraphError
from tilewright.graph.rewriting import simplified
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.requirements import require_lowered
from tilewright.network.simulate import simulate_plan
from tilewright.ops.definition import Definition


def check(op: Definition, rng: np.random.Generator) -> None:
    """Raise where the plan computes something else, GraphError where no stage does."""
    network = simplified(network_of(op))
    require_lowered(network, GROUP)
    plan = build_plan(network, GROUP, quick_search(network))
    operands = integers_for(rng, op)
    given = {f"x{i}": x for i, x in enumerate(operands)}
    found = interpret_plan(plan, given, {})["y"]
    assert np.array_equal(found, by_index(op, *operands)), "the interpreter differs"
    run = simulate_plan(plan)
    assert sum(run.by_cause().values()) == run.cycles, "causes do not sum to the cycles"


def main() -> int:
    """Check so many; the exit code says whether one failed."""
    given = [int(x) for x in sys.argv[1:]]
    count, first = (*given, *(2000, 0)[len(given) :])
    failed, refusals = 0, Counter[str]()
    for number in range(first, first + count):
        rng = np.random.default_rng(number)
        op = random_definition(rng)
        try:
            check(op, rng)
        except GraphError as refusal:
            refusals[refusal.message.partition(": ")[2] or refusal.message] += 1
        except Exception:  # every failure is shown, and the next one tried
            failed += 1
            print(f"seed {number}: {op.describe()}\n{traceback.format_exc(limit=-2)}", flush=True)
    for reason, times in refusals.most_common():
        print(f"{times} refused: {reason}")
    print(f"{count} definitions, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
