"""Random small networks: plans interpreted, simulated and emulated, and the host.

    PYTHONPATH=tests:tools python -m fuzz.networks [COUNT [SEED]]

On one core group and on four, which compute together or divide the images, each network computes
what its operators' references compute: to the last bit where all its numbers are sums of small
powers of two, within rounding elsewhere. Generated code computes the same on emulated cores and,
where it computes all of a network's operators, on this computer; the causes of the simulated time
sum to it. So do the programs of cores that divide the network; what their machine refuses is
counted by reason. Networks come in batches, one build for the emulated code of each; every batch
has a seed of its own and says what came out, so that a run that was cut goes on with the next SEED.
Prints what fails.
"""

from __future__ import annotations

import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

from support.native import NATIVE_HOSTS
from support.networks import TOLERANCE, networks, numbers_for, quickly_loaded, small_integers
from support.plans import GROUP, quick_search
from tilewright.codegen.artifact import Array
from tilewright.common.errors import TilewrightError
from tilewright.graph.graph import Network
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.network.plan import Plan
from tilewright.network.planned import PlannedNetwork
from tilewright.network.simulate import simulate_plan
from tilewright.partition.capability import DIVIDES
from tilewright.partition.objective import TRAFFIC
from tilewright.targets.host.network.generate import generated
from tilewright.targets.sw26010.emulation.run import Case, run_emulated_many
from tilewright.targets.sw26010.network.code import constant_block, emit_network

BATCH = 25
"""Number of networks whose emulated code is built at once."""
MACHINES = (GROUP, load_machine("sw26010"))
GRID = load_machine("bwdsp-56")
FRACTION, MAGNITUDE = 2**6, {"f32": 2**14, "f64": 2**40}
"""Multiples of 1/64 below these are summed and multiplied without rounding."""

Numbers = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Subject:
    """A network with its plan, its weights and inputs, and the expected outputs."""

    network: Network
    plan: Plan
    numbers: tuple[Numbers, Numbers]
    expected: Numbers
    is_exact: bool

    @property
    def planned(self) -> PlannedNetwork:
        """The plan to run."""
        return PlannedNetwork(self.network, self.plan)

    def interpreted(self) -> Numbers:
        """The outputs of the interpreted programs."""
        weights, inputs = self.numbers
        return self.planned.run(weights=weights, **inputs)

    def case(self) -> Case:
        """The generated code of all groups, with its inputs."""
        weights, inputs = self.numbers
        artifact = emit_network(self.plan, self.plan.machine, self.planned.images)
        return artifact, {**inputs, artifact.block: constant_block(self.plan, weights)}

    def require(self, who: str, found: Numbers) -> None:
        """Raise AssertionError if an output differs from the expected one."""
        kind = self.plan.dtype
        for name, y in self.expected.items():
            scale = max(1.0, float(np.abs(y).max()))
            worst = float(np.abs(found[name] - y).max()) / scale
            allowed = 0.0 if self.is_exact else TOLERANCE[kind]
            fits = worst <= allowed  # False for NaN
            assert fits, f"{who}: {name} differs by {worst:.1e}, not {allowed:.0e}"


def planned(network: Network) -> list[Subject]:
    """A network on each machine, on small integers if exact on these, else on random numbers."""
    search = quick_search(network)
    named = [(m, replace(network, name=f"{network.name} {m.name}")) for m in MACHINES]
    plans = [build_plan(own, machine, search) for machine, own in named]
    numbers = small_integers(network)
    exact = _is_exact(network, numbers, plans[0].dtype)
    numbers = numbers if exact else numbers_for(network)
    expected = _evaluated(network, numbers)
    return [Subject(network, plan, numbers, expected, exact) for plan in plans]


def _evaluated(network: Network, numbers: tuple[Numbers, Numbers]) -> Numbers:
    weights, inputs = numbers
    return network.evaluate({**weights, **inputs})


def _is_exact(network: Network, numbers: tuple[Numbers, Numbers], kind: str) -> bool:
    """True if no tensor of the network holds a number that was or could have been rounded."""
    every = replace(network, outputs=tuple(node.output for node in network.nodes))
    found = np.concatenate([y.ravel() for y in _evaluated(every, numbers).values()]) * FRACTION
    return bool((found == np.rint(found)).all() and np.abs(found).max() < MAGNITUDE[kind])


def check_plan(one: Subject) -> None:
    """Raise AssertionError if the interpreter or the simulator differs."""
    run = simulate_plan(one.plan)
    assert sum(run.by_cause().values()) == run.cycles, "causes do not sum to the cycles"
    one.require("interpreter", one.interpreted())


def check_here(one: Subject) -> bool:
    """Raise AssertionError if this computer differs; False if it cannot run generated code."""
    weights, inputs = one.numbers
    if not NATIVE_HOSTS:
        return False
    code = generated(one.network, NATIVE_HOSTS[0], quick_search(one.network))
    loaded = quickly_loaded(code)
    bound = loaded.bind(loaded.constants(weights))
    bound.give(inputs)
    bound.repeat(1)
    one.require("this computer", bound.outputs())
    return True


def check_divided(network: Network) -> str:
    """Raise AssertionError if the cores of a grid differ from the reference, in their own
    element type. Returns why the machine refuses the network, "" if it does not.
    """
    kind = GRID.core.types[0]
    own = _of_type(network, kind)
    numbers = numbers_for(own)
    try:
        divided = DIVIDES.required(GRID).divide(own, GRID, None, TRAFFIC, 1.0)
    except TilewrightError as refusal:
        return f"{type(refusal).__name__}: {refusal.message}"
    found, expected = divided.run({**numbers[0], **numbers[1]}), _evaluated(own, numbers)
    for name, y in expected.items():
        scale = max(1.0, float(np.abs(y).max()))
        worst = float(np.abs(found[name] - y).max()) / scale
        assert worst <= TOLERANCE[kind], f"{GRID.name}: {name} differs by {worst:.1e}"
    return ""


def _of_type(network: Network, kind: str) -> Network:
    """The network in another element type."""
    inputs, weights = (
        tuple(replace(t, dtype=kind) for t in tensors)
        for tensors in (network.inputs, network.weights)
    )
    nodes = tuple(replace(node, op=replace(node.op, dtype=kind)) for node in network.nodes)
    return replace(network, inputs=inputs, weights=weights, nodes=nodes)


def drawn(number: int, count: int) -> list[Network]:
    """The networks of a seed, each with a name of its own."""
    found: list[Network] = []

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(networks(moving=True))
    def each(network: Network) -> None:
        found.append(replace(network, name=f"{network.name} {len(found)}"))

    each()
    return found


def failures(number: int, count: int) -> Iterator[str]:
    """Check a batch, and print a line about it; yields a text for each network that fails."""
    started, found = time.perf_counter(), drawn(number, count)
    exact = native = divided = 0
    refusals: Counter[str] = Counter()
    subjects: list[Subject] = []
    for network in found:
        try:
            own = planned(network)
            for one in own:
                check_plan(one)
            native += check_here(own[0])
            why = check_divided(network)
            divided += not why
            refusals.update([why] if why else [])
            exact += own[0].is_exact
            subjects += own
        except Exception:
            yield _failure(number, network, traceback.format_exc(limit=-3))
    results = run_emulated_many([one.case() for one in subjects])
    for one, result in zip(subjects, results, strict=True):
        try:
            if isinstance(result, Exception):
                raise result
            one.require("emulated code", result)
        except Exception:
            network = replace(one.network, name=one.plan.name)
            yield _failure(number, network, traceback.format_exc(limit=-3))
    seconds, memory = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    dividing = sum(one.plan.groups > 1 for one in subjects)
    print(
        f"seed {number}: {len(found)} networks in {len(subjects)} plans, of which {dividing} "
        f"divide the images, {exact} to the last bit, {native} on this computer too, "
        f"{divided} divided over {GRID.name}, in "
        f"{seconds:.0f} s and {memory.ru_maxrss >> 10} MiB",
        flush=True,
    )
    for why, count in refusals.most_common():
        print(f"  {GRID.name} refuses {count}: {why}", flush=True)


def _failure(number: int, network: Network, why: str) -> str:
    operators = [node.op.describe() for node in network.nodes]
    return f"seed {number}, {network.name!r}: {operators}\n{why}"


def main(count: int, number: int) -> int:
    """Try `count` networks; returns how many fail."""
    failed = 0
    for first in range(0, count, BATCH):
        for why in failures(number + first // BATCH, min(BATCH, count - first)):
            failed += 1
            print(why, flush=True)
    print(f"{count} networks, {failed} failed")
    return failed


if __name__ == "__main__":
    arguments = [int(word) for word in sys.argv[1:]]
    sys.exit(bool(main(*(arguments + [500, 0][len(arguments) :]))))
