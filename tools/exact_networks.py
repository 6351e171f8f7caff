"""Check the known networks, with fewer channels and pixels, on integers: exact everywhere.

    PYTHONPATH=tests:tools python tools/exact_networks.py [NETWORK ...]

On one core group and on four that compute together, the interpreter of plans, generated code on
emulated cores and generated code on this computer compute the result of `Network.evaluate`; the
causes of the simulated time sum to it.
"""

from __future__ import annotations

import sys

from fuzz.networks import MACHINES, Subject, check_here, check_plan

from support.plans import quick_search
from support.shrunk import SIZES, integers, shrunk
from tilewright.graph.zoo import network
from tilewright.network.build import build_plan
from tilewright.targets.sw26010.emulation.run import run_emulated


def main(names: list[str]) -> None:
    """Raise AssertionError if a bit differs."""
    for name in names or SIZES:
        net = shrunk(network(name, 1), *SIZES[name])
        weights, inputs = integers(net)
        expected = net.evaluate({**weights, **inputs})
        for machine in MACHINES:
            plan = build_plan(net, machine, quick_search(net))
            one = Subject(net, plan, (weights, inputs), expected, is_exact=True)
            check_plan(one)
            also = " and this computer" if check_here(one) else ""
            one.require("emulated code", run_emulated(*one.case()))
            words = f"{len(plan.stages)} stages, exact on interpreter, emulated code{also}"
            print(f"{name} on {machine.name}: {words}")


if __name__ == "__main__":
    main(sys.argv[1:])
