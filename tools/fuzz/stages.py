"""Random stages of expressions and accesses, exact on every machine that has them.

    PYTHONPATH=tests:tools python -m fuzz.stages [--count N] [--seed N] [--on MACHINE]...
        [--definitions] [--draw-schedules]

A stage is a definition of a random expression over up to three operands, read at places with steps
either way, joint axes, borders and look-ups, gathered or not, in f64, f32 or i32; its numbers are
small integers. It is computed by explicit index arrays, and the same has to come of the operator's
reference; of this computer by optimised code, and under the address and undefined-behaviour
sanitizers; of the programs of a core group of the SW26010 by the interpreter and as emulated C; and
of the programs of a Cambricon in fixed point, on its simulated device. What a machine refuses is
counted by reason. Stages come in batches, one build for each. With `--definitions` they are
networks of up to four definitions such as `fuzz.definitions` draws, each of which reads a result
of another: of up to seven axes, with any gather. With `--draw-schedules` one legal
schedule of each nest is drawn, which needs a fraction of the time that ranking all of a new shape
takes, and runs schedules that no ranking would pick. Every batch says how far it has come, so that
a run that was cut goes on with that `--seed`. Prints what fails.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from support.definitions import network_by_index, network_of, random_network, random_stage
from support.native import NATIVE_HOSTS
from support.networks import merged
from support.plans import GROUP, quick_ranking, quick_search
from support.sanitized_networks import apart, sanitized_network
from tilewright.codegen.artifact import Array
from tilewright.common.errors import GraphError, TilewrightError
from tilewright.graph.graph import Network
from tilewright.graph.rewriting import simplified
from tilewright.machine import Machine, load_machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.requirements import require_lowered, without_look_ups
from tilewright.ops import Op
from tilewright.passes.lowering import lowering_of
from tilewright.schedule.structures import Structure, build, combinations
from tilewright.seeds.space import Seed, Space
from tilewright.targets.cambricon.networks import NETWORKS as CAMBRICON
from tilewright.targets.host.network.generate import generated
from tilewright.targets.host.network.run import load_network
from tilewright.targets.sw26010.emulation.run import Case, run_emulated_many
from tilewright.targets.sw26010.network.code import constant_block, emit_network
from tilewright.tune import kept, refills, search
from tilewright.tune.legal import rules_of, structures_on
from tilewright.tune.prepared import ready_structures

BATCH = 25
DEVICE, TYPES, ONE = load_machine("dla-al"), "q8.8", 256
"""A Cambricon, its element type, and the integer that stands for 1."""
ARENA = apart(setattr)
ORDER = ("reference", "this computer", "sanitizers", "interpreter", "emulated code", "cambricon")

Numbers = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Subject:
    """A network of stages, its inputs, and the expected outputs."""

    number: int
    drawn: Network
    inputs: Numbers
    expected: Numbers

    def network(self, *, reads: bool) -> Network:
        """The network as it is planned; `reads` as in `without_look_ups`."""
        return without_look_ups(simplified(self.drawn), reads=reads)

    def is_met(self, found: Numbers) -> bool:
        """True if these outputs are the expected ones."""
        return all(np.array_equal(found[name], y) for name, y in self.expected.items())


Result = Numbers | Exception
"""A machine's outputs for a subject, or an error: a TilewrightError if the machine refuses it."""


def drawn(number: int, *, definitions: bool) -> Subject:
    """The stage, or the network of definitions, of a seed."""
    rng = np.random.default_rng(number)
    network = random_network(rng) if definitions else network_of(random_stage(rng))
    network = replace(network, name=f"stage {number}")
    inputs, expected = network_by_index(rng, network)
    return Subject(number, network, inputs, expected)


class DrawnSchedules:
    """Makes rankings consider one legal schedule of each nest, or all if that does not fit, without
    the refills of instruction caches.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        vars(kept).update(keeps=lambda machine: False, rank=self._ranked)
        vars(refills)["_evicts"] = lambda machine: False

    def _ranked(
        self,
        cases: Sequence[tuple[Op, Seed]],
        machine: Machine,
        *,
        shared: Sequence[frozenset[str]],
        changes: Sequence[int | None],
        **asked: Any,
    ) -> list[search.Ranking]:
        limits = [*zip(shared, changes or [None] * len(cases), strict=True)]
        left, found = range(len(cases)), dict[int, search.Ranking]()
        for ways in (self._some, ready_structures):
            vars(search)["ready_structures"] = ways
            names, most = zip(*(limits[i] for i in left), strict=True) if left else ((), ())
            ranked = search.rank(
                [cases[i] for i in left], machine, shared=names, changes=most, **asked
            )
            found |= zip(left, ranked, strict=True)
            left = [i for i in left if not found[i].best]
        return [found[i] for i in range(len(cases))]

    def _some(
        self, machine: Machine, seed: Seed, space: Space, dtype: str
    ) -> tuple[Structure, ...]:
        rules, staging = rules_of(machine), lowering_of(machine).staging
        every = combinations(seed, space, rules)
        order = self._rng.permutation(len(every))
        drawn = (build(space, every[i], dtype, staging, rules) for i in order)
        found = next(filter(None, drawn), None)
        return (found,) if found else structures_on(machine, seed, space, dtype)


def each(subjects: Sequence[Subject], compute: Callable[[Subject], Numbers]) -> list[Result]:
    """The result of each subject, or the error that it raises."""
    found: list[Result] = []
    for one in subjects:
        try:
            found.append(compute(one))
        except Exception as error:
            found.append(error)
    return found


def here(subjects: Sequence[Subject], *, sanitized: bool) -> list[Result]:
    """Results on this computer, by one network of all stages that it has."""
    host = NATIVE_HOSTS[0]
    found: list[Result] = [GraphError("nothing was tried")] * len(subjects)
    taken, parts = list[int](), list[Network]()
    for i, one in enumerate(subjects):
        try:
            parts.append(one.network(reads=False))
            require_lowered(parts[-1], host)
            taken.append(i)
        except TilewrightError as refusal:
            found[i] = refusal
    network = merged(parts)
    code = generated(network, host, quick_search(network))
    given = {f"{k}/{n}": x for k, i in enumerate(taken) for n, x in subjects[i].inputs.items()}
    if sanitized:
        results = sanitized_network(code, ARENA, network.values, given, ("-O1",))
    else:
        loaded = load_network(code)
        bound = loaded.bind(loaded.constants(network.values))
        bound.give(given)
        bound.repeat(2)
        results = [bound.outputs()]
    for k, i in enumerate(taken):
        every = [{n: own[f"{k}/{n}"] for n in subjects[i].expected} for own in results]
        wrong = [outputs for outputs in every if not subjects[i].is_met(outputs)]
        found[i] = (wrong or every)[0]
    return found


def on_group(subjects: Sequence[Subject]) -> tuple[list[Result], list[Result]]:
    """Results by the interpreter, and by emulated code."""
    cases, numbers = list[Case](), list[int]()

    def planned(one: Subject) -> Numbers:
        network = one.network(reads=True)
        require_lowered(network, GROUP)
        plan = build_plan(network, GROUP, ranked=quick_ranking(network))
        artifact = emit_network(plan, GROUP, ())
        block = constant_block(plan, network.values)
        cases.append((artifact, {**one.inputs, artifact.block: block}))
        numbers.append(one.number)
        return interpret_plan(plan, one.inputs, network.values)

    found = each(subjects, planned)
    results = dict(zip(numbers, run_emulated_many(cases), strict=True))
    emulated = [
        y
        if isinstance(y := results.get(one.number, own), Exception)
        # the tensor may be that of the last stage
        else {n: y[n].reshape(shaped.shape) for n, shaped in one.expected.items()}
        for one, own in zip(subjects, found, strict=True)
    ]
    return found, emulated


def on_device(one: Subject) -> Numbers:
    """Outputs in fixed point. Saturated elements, which alone may differ, are the expected ones."""
    fixed = {n: TYPES if x.dtype != np.int64 else "i64" for n, x in one.inputs.items()}
    nodes = []
    for node in one.drawn.nodes:
        kinds = ",".join(fixed.get(name, TYPES) for name in node.inputs)
        nodes.append(replace(node, op=replace(node.op, dtype=f"{kinds}:f64:{TYPES}")))
    inputs = tuple(replace(t, dtype=fixed[t.name]) for t in one.drawn.inputs)
    network = simplified(replace(one.drawn, inputs=inputs, nodes=tuple(nodes)))
    planned = CAMBRICON.compile(network, DEVICE, quick_search(network), progress=lambda *_: None)
    given = {
        n: x if fixed[n] == "i64" else (x * ONE).astype(np.int16) for n, x in one.inputs.items()
    }
    outputs = planned.run(**given)
    return {name: _unsaturated(outputs[name] / ONE, y) for name, y in one.expected.items()}


def _unsaturated(y: Array, expected: Array) -> Array:
    is_full = np.isin(y, (np.iinfo(np.int16).min / ONE, np.iinfo(np.int16).max / ONE))
    return np.where(is_full & (expected * np.sign(y) >= np.abs(y)), expected, y)


def checked(subjects: Sequence[Subject], machines: Sequence[str]) -> dict[str, list[Result]]:
    """Results of each stage, by machine."""
    found: dict[str, list[Result]] = {}
    if "reference" in machines:
        found["reference"] = each(subjects, lambda one: one.drawn.evaluate(one.inputs))
    for name in ("this computer", "sanitizers"):
        if name in machines:
            found[name] = here(subjects, sanitized=name == "sanitizers")
    if {"interpreter", "emulated code"} & {*machines}:
        found["interpreter"], found["emulated code"] = on_group(subjects)
    if "cambricon" in machines:
        found["cambricon"] = each(subjects, on_device)
    return found


def main() -> int:
    """Check the cases; the exit code is 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--on", action="append", choices=ORDER, help="a machine; all unless given")
    parser.add_argument("--definitions", action="store_true")
    parser.add_argument("--draw-schedules", action="store_true")
    asked = parser.parse_args()
    if asked.draw_schedules:
        DrawnSchedules(asked.seed)
    exact, refused, failed = Counter[str](), Counter[tuple[str, str]](), 0
    for first in range(asked.seed, asked.seed + asked.count, BATCH):
        last, begun = min(first + BATCH, asked.seed + asked.count), time.process_time()
        subjects = [drawn(n, definitions=asked.definitions) for n in range(first, last)]
        for name, results in checked(subjects, asked.on or ORDER).items():
            for one, y in zip(subjects, results, strict=True):
                if isinstance(y, TilewrightError):
                    refused[name, y.message.partition(": ")[2] or y.message] += 1
                elif isinstance(y, Exception) or not one.is_met(y):
                    failed += 1
                    print(f"seed {one.number} on {name}: {one.drawn.nodes}")
                    if isinstance(y, Exception):
                        traceback.print_exception(y, limit=-3)
                else:
                    exact[name] += 1
        seconds = time.process_time() - begun
        print(f"up to seed {last}: {dict(exact)}, {failed} failed, {seconds:.0f} s", flush=True)
    for (name, reason), times in refused.most_common():
        print(f"{name} refuses {times}: {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
