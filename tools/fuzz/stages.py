"""Random stages of expressions and accesses, exact on every machine that has them.

    PYTHONPATH=tests:tools python -m fuzz.stages [--count N] [--seed N] [--on MACHINE]...
        [--definitions]

A stage is a definition of a random expression over up to three operands, read at places with steps
either way, joint axes, borders and look-ups, gathered or not, in f64, f32 or i32; its numbers are
small integers. It is computed by explicit index arrays, and the same has to come of the operator's
reference; of this computer by optimised code, and under the address and undefined-behaviour
sanitizers; of the programs of a core group of the SW26010 by the interpreter and as emulated C; and
of the programs of a Cambricon in fixed point, on its simulated device. What a machine refuses is
counted by reason. Stages come in batches, one network and one build for each. With `--definitions`
they are those that `fuzz.definitions` draws from the same seeds, four a network: of up to seven
axes, with any gather. Prints what fails.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from support.definitions import by_index, integers_for, network_of, random_definition, random_stage
from support.native import NATIVE_HOSTS
from support.networks import merged
from support.plans import GROUP, quick_ranking, quick_search
from support.sanitized_networks import apart, sanitized_network
from tilewright.codegen.artifact import Array
from tilewright.common.errors import GraphError, TilewrightError
from tilewright.graph.graph import Network
from tilewright.graph.rewriting import simplified
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.requirements import require_lowered, without_look_ups
from tilewright.ops.definition import Definition
from tilewright.targets.cambricon.networks import NETWORKS as CAMBRICON
from tilewright.targets.host.network.generate import generated
from tilewright.targets.host.network.run import load_network
from tilewright.targets.sw26010.emulation.run import Case, run_emulated_many
from tilewright.targets.sw26010.network.code import constant_block, emit_network

BATCH, FEW = 25, 4
DEVICE, TYPES, ONE = load_machine("dla-al"), "q8.8", 256
"""A Cambricon, its elements, and what stands for 1 in one."""
ARENA = apart(setattr)
ORDER = ("reference", "this computer", "sanitizers", "interpreter", "emulated code", "cambricon")

Numbers = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Subject:
    """A stage, its numbers, and what is to come of them."""

    number: int
    op: Definition
    operands: tuple[Array, ...]
    expected: Array

    @property
    def inputs(self) -> Numbers:
        """The operands by the names of the network."""
        return {f"x{i}": x for i, x in enumerate(self.operands)}

    def network(self, *, reads: bool) -> Network:
        """The stage alone, where loops `reads` of it need not be."""
        network = simplified(network_of(self.op, f"stage {self.number}"))
        return without_look_ups(network, reads=reads)


Result = Array | Exception
"""A machine's result for a subject; a TilewrightError where it refuses it."""


def drawn(number: int, *, definitions: bool) -> Subject:
    """The stage of a seed."""
    rng = np.random.default_rng(number)
    op = random_definition(rng, look_ups=True) if definitions else random_stage(rng)
    operands = integers_for(rng, op)
    return Subject(number, op, operands, by_index(op, *operands))


def each(subjects: Sequence[Subject], compute: Callable[[Subject], Array]) -> list[Result]:
    """Results of each, or the errors that they raise."""
    found: list[Result] = []
    for one in subjects:
        try:
            found.append(compute(one))
        except Exception as error:
            found.append(error)
    return found


def here(subjects: Sequence[Subject], *, sanitized: bool) -> list[Result]:
    """By one network of all stages that this computer has."""
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
        every = [own[f"{k}/y"] for own in results]
        wrong = [y for y in every if not np.array_equal(y, subjects[i].expected)]
        found[i] = (wrong or every)[0]
    return found


def on_group(subjects: Sequence[Subject]) -> tuple[list[Result], list[Result]]:
    """By the interpreter, and by emulated code."""
    cases, numbers = list[Case](), list[int]()

    def planned(one: Subject) -> Array:
        network = one.network(reads=True)
        require_lowered(network, GROUP)
        plan = build_plan(network, GROUP, ranked=quick_ranking(network))
        artifact = emit_network(plan, GROUP, ())
        block = constant_block(plan, network.values)
        cases.append((artifact, {**one.inputs, artifact.block: block}))
        numbers.append(one.number)
        return interpret_plan(plan, one.inputs, network.values)["y"]

    found = each(subjects, planned)
    results = dict(zip(numbers, run_emulated_many(cases), strict=True))
    emulated = [
        y
        if isinstance(y := results.get(one.number, own), Exception)
        else y["y"].reshape(one.expected.shape)  # the tensor may be that of the last stage
        for one, own in zip(subjects, found, strict=True)
    ]
    return found, emulated


def on_device(one: Subject) -> Array:
    """In fixed point; what saturates, and nothing else may differ, as it would be without."""
    kinds = [k if k == "i64" else TYPES for k in one.op.operand_dtypes]
    op = replace(one.op, dtype=f"{','.join(kinds)}:f64:{TYPES}")
    network = simplified(network_of(op, f"stage {one.number}"))
    planned = CAMBRICON.compile(network, DEVICE, quick_search(network), progress=lambda *_: None)
    pairs = zip(one.inputs.items(), kinds, strict=True)
    fixed = {n: x if k == "i64" else (x * ONE).astype(np.int16) for (n, x), k in pairs}
    y = planned.run(**fixed)["y"] / ONE
    is_full = np.isin(y, (np.iinfo(np.int16).min / ONE, np.iinfo(np.int16).max / ONE))
    beyond = is_full & (one.expected * np.sign(y) >= np.abs(y))
    return np.where(beyond, one.expected, y)


def checked(subjects: Sequence[Subject], machines: Sequence[str]) -> dict[str, list[Result]]:
    """Results of each stage, by machine."""
    found: dict[str, list[Result]] = {}
    if "reference" in machines:
        found["reference"] = each(subjects, lambda one: one.op.reference(*one.operands))
    for name in ("this computer", "sanitizers"):
        if name in machines:
            found[name] = here(subjects, sanitized=name == "sanitizers")
    if {"interpreter", "emulated code"} & {*machines}:
        found["interpreter"], found["emulated code"] = on_group(subjects)
    if "cambricon" in machines:
        found["cambricon"] = each(subjects, on_device)
    return found


def main() -> int:
    """Check so many; the exit code says whether one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--on", action="append", choices=ORDER, help="a machine; all unless given")
    parser.add_argument("--definitions", action="store_true")
    asked = parser.parse_args()
    batch = FEW if asked.definitions else BATCH
    exact, refused, failed = Counter[str](), Counter[tuple[str, str]](), 0
    for first in range(asked.seed, asked.seed + asked.count, batch):
        last, begun = min(first + batch, asked.seed + asked.count), time.process_time()
        subjects = [drawn(n, definitions=asked.definitions) for n in range(first, last)]
        for name, results in checked(subjects, asked.on or ORDER).items():
            for one, y in zip(subjects, results, strict=True):
                if isinstance(y, TilewrightError):
                    refused[name, y.message.partition(": ")[2] or y.message] += 1
                elif isinstance(y, Exception) or not np.array_equal(y, one.expected):
                    failed += 1
                    print(f"seed {one.number} on {name}: {one.op}")
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
