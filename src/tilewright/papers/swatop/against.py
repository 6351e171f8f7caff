"""Tuned schedules against hand-made ones, both in the same simulator (swATOP 5.1).

In: operators and an algorithm. Out: for each a `Pair`: the model's pick, and what stands for the
best manual version: for implicit GEMM swDNN's plans with their own rule for blocks, for explicit
GEMM and Winograd the same transforms around matrix products of the library kind, which have one
schedule for all sizes (`seeds.gemm_padded`), for matrix products that library itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tilewright.common.errors import CapacityError
from tilewright.machine import Machine
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.papers.lab import Lab
from tilewright.papers.model import Row, compare
from tilewright.papers.swatop.schedules import Outcome, Setting, Task, best_schedule, outcome_of
from tilewright.papers.swdnn.fixed_plans import best_plan
from tilewright.partition import Partition, split
from tilewright.seeds.gemm_padded import LIBRARY_BLOCK
from tilewright.seeds.nest import Nest
from tilewright.seeds.space import Seed, Space, seeds_for
from tilewright.simulate.kernel_level import simulate
from tilewright.tune.choose import choose
from tilewright.tune.fit import main_memory_bytes
from tilewright.tune.search import Candidate, rank

IMPLICIT, LIBRARY = "implicit", "library"
Named = Mapping[str, Conv2d | Gemm]


@dataclass(frozen=True)
class Pair:
    """One operator in both ways."""

    name: str
    op: Op
    tuned: Outcome
    manual: Outcome

    @property
    def speedup(self) -> float | None:
        """Cycles of the manual version over those of the tuned one; None where one is missing."""
        if self.tuned.refusal or self.manual.refusal:
            return None
        return self.manual.cycles / self.tuned.cycles


def pairs(lab: Lab, ops: Named, algorithm: str, on: Setting) -> list[Pair]:
    """Every operator by the algorithm, tuned and manual."""
    tasks = [Task(op, algorithm, on) for op in ops.values()]
    tuned, manual = lab.map(best_schedule, tasks), lab.map(manual_schedule, tasks)
    return [
        Pair(name, op, *found)
        for (name, op), *found in zip(ops.items(), tuned, manual, strict=True)
    ]


def manual_schedule(task: Task) -> Outcome:
    """The manual version of a task, simulated."""
    machine = task.on.load()
    try:
        part, candidate = _manual(task.op, task.algorithm, machine)
    except CapacityError as error:
        return Outcome(refusal=error.message)
    return outcome_of(
        task.op, part, candidate, simulate(candidate.program(machine), machine), machine
    )


def _manual(op: Conv2d | Gemm, algorithm: str, machine: Machine) -> tuple[Partition, Candidate]:
    if isinstance(op, Gemm):
        (choice,) = choose([op], machine, algorithm=LIBRARY, keep=1)
        return choice.best.partition, choice.best.candidate
    if algorithm == IMPLICIT:
        candidate = best_plan(op, machine)
        part = next((p for p in split(op, machine.groups.count) if p.kind == "rows"), None)
        if candidate is None or part is None:
            raise CapacityError(f"swDNN has no plan for {op.describe()}")
        return part, candidate
    return _with_library_products(op, algorithm, machine)


def _with_library_products(
    op: Conv2d, algorithm: str, machine: Machine
) -> tuple[Partition, Candidate]:
    """The best transforms and partition around the one schedule."""
    found: list[tuple[Partition, Candidate]] = []
    for part in split(op, machine.groups.count):
        (seed,) = seeds_for(part.piece, algorithm)
        if main_memory_bytes(part.piece, seed) <= machine.memory.main.capacity_bytes:
            (ranking,) = rank([(part.piece, library_products(seed))], machine, keep=1)
            found += [(part, candidate) for candidate in ranking.best]
    if not found:
        raise CapacityError(f"nothing fits for {op.describe()} by {algorithm}")
    return min(found, key=lambda pair: pair[1].cycles)


@cache
def library_products(seed: Seed) -> Seed:
    """The seed with every matrix product by the library's one schedule, boundaries as ours.

    The library may run its vectors along either dimension of the result.
    """
    spaces = tuple(
        _one_schedule(space.nest) if space.nest.primitive == "gemm" else space
        for space in seed.spaces
    )
    return replace(seed, name=f"{seed.name}_library", spaces=spaces)


def _one_schedule(product: Nest) -> Space:
    axes = {letter: product.axis(name) for name, letter in product.roles}
    row, col, depth = (axes[letter] for letter in "mnk")
    outer = tuple(axis for axis in product.axes if axis not in (row, col, depth))
    return (
        Space(product)
        .split(row, col, depth)
        .spread(row, "rows")
        .spread(col, "columns")
        .spread(depth, "both")
        .reorder((*outer, row, col, depth))
        .vectorize("m", "n")
        .prefetch(*(use.tensor for use in product.uses))
        .limit(largest=LIBRARY_BLOCK, most=1)
    )


def speedups(found: Iterable[Pair]) -> list[float]:
    """Of the pairs that have both versions."""
    return [pair.speedup for pair in found if pair.speedup is not None]


def pair_row(pair: Pair, published: float | None = None) -> Row:
    """The speedup of one pair, with both efficiencies, or why there is none."""
    if pair.speedup is None:
        missing = pair.manual if pair.manual.refusal else pair.tuned
        return compare(pair.name, published, None, "simulated", note=missing.refusal, unit="x")
    note = f"{100 * pair.tuned.efficiency:.0f} % of the peak, {100 * pair.manual.efficiency:.0f} %"
    if pair.manual.cycles < pair.tuned.cycles:
        note += "; slower"
    return compare(pair.name, published, pair.speedup, "simulated", note=note, unit="x")


def average(found: Sequence[Pair]) -> float | None:
    """Mean speedup, None without pairs that have one."""
    values = speedups(found)
    return statistics.fmean(values) if values else None


def evidence(found: Sequence[Pair]) -> str:
    """Where the time goes in both versions, mean shares: why the speedup is what it is."""
    both = [pair for pair in found if pair.speedup is not None]
    texts = []
    for name, outcomes in (
        ("tuned", [p.tuned for p in both]),
        ("manual", [p.manual for p in both]),
    ):
        shares: dict[str, float] = {}
        for outcome in outcomes:
            for kind, cycles in outcome.causes.items():
                shares[kind] = shares.get(kind, 0.0) + cycles / outcome.cycles / len(outcomes)
        largest = sorted(shares.items(), key=lambda item: -item[1])[:3]
        texts.append(f"{name}: " + ", ".join(f"{k} {100 * v:.0f} %" for k, v in largest))
    return "; ".join(texts)
