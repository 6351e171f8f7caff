"""Random small networks: plans for a core group interpreted, simulated and emulated, and the host.

    PYTHONPATH=tests python tools/fuzz_networks.py [COUNT [SEED]]

Each network computes what its operators' references compute, within rounding; generated code
computes the same on emulated cores and, where it computes all of a network's operators, on this
computer; the causes of the simulated time sum to it. Prints what fails, how many were tried, and
how many of them on this computer.
"""

from __future__ import annotations

import sys
import traceback

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

from support.native import NATIVE_HOSTS
from support.networks import TOLERANCE, networks, numbers_for, quickly_loaded
from support.plans import GROUP, quick_search
from tilewright.codegen.artifact import Array
from tilewright.common.errors import GraphError
from tilewright.graph.graph import Network
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.search import Search
from tilewright.network.simulate import simulate_plan
from tilewright.targets.host.network.generate import generated
from tilewright.targets.host.network.moves import require_moves
from tilewright.targets.sw26010.emit_network import constant_block, emit_network
from tilewright.targets.sw26010.emulate import run_emulated


def on_host(net: Network) -> dict[str, Array] | None:
    """What this computer computes, None where it does not compute all operators."""
    try:
        require_moves(net)
    except GraphError:
        return None
    weights, inputs = numbers_for(net)
    loaded = quickly_loaded(generated(net, NATIVE_HOSTS[0], Search(keep=1)))
    bound = loaded.bind(loaded.constants(weights))
    bound.give(inputs)
    bound.repeat(1)
    return bound.outputs()


def check(net: Network) -> bool:
    """Raise where one of them differs; whether this computer was among them."""
    (kind,) = {t.dtype for t in net.tensors.values()}
    weights, inputs = numbers_for(net)
    plan = build_plan(net, GROUP, quick_search(net))
    run = simulate_plan(plan)
    assert sum(run.by_cause().values()) == run.cycles, "causes do not sum to the cycles"
    expected = net.evaluate({**weights, **inputs})
    found = interpret_plan(plan, inputs, weights)
    artifact = emit_network(plan, GROUP)
    emulated = run_emulated(artifact, {**inputs, artifact.block: constant_block(plan, weights)})
    native = on_host(net) if NATIVE_HOSTS else None
    others = {"interpreter": found, "emulated code": emulated, "this computer": native}
    for name, y in expected.items():
        scale = max(1.0, float(np.abs(y).max()))
        for who, z in ((who, z) for who, z in others.items() if z is not None):
            worst = float(np.abs(z[name] - y).max()) / scale
            assert worst <= TOLERANCE[kind], f"{who}: {name} differs by {worst:.1e}"
    return native is not None


def main(count: int, number: int) -> int:
    """Try `count` networks; how many fail."""
    tried, failed, native = 0, 0, 0

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
        nonlocal tried, failed, native
        tried += 1
        try:
            native += check(net)
        except Exception:
            failed += 1
            print(f"network {tried}: {[n.op.describe() for n in net.nodes]}")
            traceback.print_exc(limit=-3)

    each()
    print(f"{tried} networks, {native} of them on this computer too, {failed} failed")
    return failed


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    sys.exit(bool(main(*(arguments + [500, 0][len(arguments) :]))))
