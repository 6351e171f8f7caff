"""Random small networks as plans for a core group: interpreter, simulator and emulated code.

    PYTHONPATH=tests python tools/fuzz_networks.py [COUNT [SEED]]

Each network computes what its operators' references compute, within rounding; generated code
computes on emulated cores what the interpreter computes, within rounding of sums in another order;
the causes of the simulated time sum to it. Prints what fails, and how many were tried.
"""

from __future__ import annotations

import sys
import traceback

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

from support.networks import TOLERANCE, networks, numbers_for
from support.plans import GROUP, quick_search
from tilewright.graph.graph import Network
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.simulate import simulate_plan
from tilewright.targets.sw26010.emit_network import constant_block, emit_network
from tilewright.targets.sw26010.emulate import run_emulated


def check(net: Network) -> None:
    """Raise where one of them differs."""
    (kind,) = {t.dtype for t in net.tensors.values()}
    weights, inputs = numbers_for(net)
    plan = build_plan(net, GROUP, quick_search(net))
    run = simulate_plan(plan)
    assert sum(run.by_cause().values()) == run.cycles, "causes do not sum to the cycles"
    expected = net.evaluate({**weights, **inputs})
    found = interpret_plan(plan, inputs, weights)
    artifact = emit_network(plan, GROUP)
    emulated = run_emulated(artifact, {**inputs, artifact.block: constant_block(plan, weights)})
    for name, y in expected.items():
        scale = max(1.0, float(np.abs(y).max()))
        for who, z in (("interpreter", found), ("emulated code", emulated)):
            worst = float(np.abs(z[name] - y).max()) / scale
            assert worst <= TOLERANCE[kind], f"{who}: {name} differs by {worst:.1e}"


def main(count: int, number: int) -> int:
    """Try `count` networks; how many fail."""
    tried, failed = 0, 0

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(networks(moving=True))
    def each(net: Network) -> None:
        nonlocal tried, failed
        tried += 1
        try:
            check(net)
        except Exception:
            failed += 1
            print(f"network {tried}: {[n.op.describe() for n in net.nodes]}")
            traceback.print_exc(limit=-3)

    each()
    print(f"{tried} networks, {failed} failed")
    return failed


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    sys.exit(bool(main(*(arguments + [500, 0][len(arguments) :]))))
