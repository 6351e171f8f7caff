"""Tuned schedules against hand-made ones, both in the same simulator (swATOP 5.1).

In: operators and an algorithm. Out: for each a `Pair`: the model's pick, and what stands for the
best manual version: for implicit GEMM swDNN's plans with their own rule for blocks and the matrix
product of its public kernels, for explicit GEMM and Winograd transforms around calls of a matrix
library (`library_calls`), for matrix products that library itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.common.errors import CapacityError
from tilewright.cost.calls import Costs
from tilewright.cost.prices import call_costs
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.ops import Conv2d, Gemm, Op
from tilewright.papers.lab import Lab
from tilewright.papers.model import Row, compare
from tilewright.papers.swatop.library_calls import with_library_calls
from tilewright.papers.swatop.schedules import Outcome, Setting, Task, best_schedules, outcome_of
from tilewright.papers.swdnn.fixed_plans import best_plan
from tilewright.papers.swdnn.kernel import swdnn_gemm_cost
from tilewright.partition import split
from tilewright.simulate.kernel.level import simulate
from tilewright.tune.choose import choose

IMPLICIT, LIBRARY = "implicit", "library"
Named = Mapping[str, Conv2d | Gemm]

TUNED = {
    IMPLICIT: (IMPLICIT, "implicit_fours", "implicit_columns", "implicit_rows"),
    "explicit": ("explicit", "explicit_fused"),
    "winograd2": ("winograd2", "winograd4", "winograd2_fused", "winograd2_fours"),
}
"""Among which algorithms the tuner chooses where the manual version has one: the storage of images,
the order of loops, the size of Winograd's tiles and what stays in the scratchpad are matters of
tuning. The fastest one by simulation is taken."""


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
    manual = lab.map_together(manual_schedules, [Task(op, algorithm, on) for op in ops.values()])
    return _paired(ops, _tuned(lab, ops, TUNED.get(algorithm, (algorithm,)), on), manual)


def alike(lab: Lab, ops: Named, algorithm: str, on: Setting) -> list[Pair]:
    """The pairs with less of a difference: implicit GEMM with our matrix product in swDNN's plans
    too, other algorithms without a choice of another one.
    """
    tasks = [Task(op, algorithm, on) for op in ops.values()]
    implicit = algorithm == IMPLICIT
    version = plans_with_our_product if implicit else manual_schedules
    names = TUNED[IMPLICIT] if implicit else (algorithm,)
    return _paired(ops, _tuned(lab, ops, names, on), lab.map_together(version, tasks))


def _tuned(lab: Lab, ops: Named, algorithms: Sequence[str], on: Setting) -> list[Outcome]:
    """The fastest outcome of each operator over the algorithms."""
    choices = [
        lab.map_together(best_schedules, [Task(op, name, on) for op in ops.values()])
        for name in algorithms
    ]
    return [min(found, key=_time) for found in zip(*choices, strict=True)]


def _paired(ops: Named, tuned: Sequence[Outcome], manual: Sequence[Outcome]) -> list[Pair]:
    found = zip(ops.items(), tuned, manual, strict=True)
    return [Pair(name, op, *both) for (name, op), *both in found]


def _time(outcome: Outcome) -> tuple[bool, int]:
    return bool(outcome.refusal), outcome.cycles


def manual_schedules(tasks: Sequence[Task]) -> list[Outcome]:
    """The manual versions of tasks, simulated."""
    alike: dict[tuple[str, Setting], list[Task]] = {}
    for task in tasks:
        alike.setdefault((task.algorithm, task.on), []).append(task)
    found: dict[Task, Outcome] = {}
    for (algorithm, on), group in alike.items():
        ops, machine = [task.op for task in group], on.load()
        found |= zip(group, _manual(ops, algorithm, machine), strict=True)
    return [found[task] for task in tasks]


def _manual(ops: Sequence[Conv2d | Gemm], algorithm: str, machine: Machine) -> list[Outcome]:
    convolutions = [conv for op in ops if (conv := op.convolution)]
    if len(convolutions) < len(ops):
        return [_library(op, machine) for op in ops]
    if algorithm == IMPLICIT:
        costs: Costs = {**call_costs(machine), MatrixProduct: swdnn_gemm_cost}
        return [_plan(op, machine, costs) for op in convolutions]
    return with_library_calls(convolutions, algorithm, machine)


def plans_with_our_product(tasks: Sequence[Task]) -> list[Outcome]:
    """swDNN's plans of convolutions with our matrix primitive in the place of its own."""
    return [_plan(conv, t.on.load()) for t in tasks if (conv := t.op.convolution)]


def _library(op: Op, machine: Machine) -> Outcome:
    try:
        (choice,) = choose([op], machine, algorithm=LIBRARY, keep=1)
    except CapacityError as error:
        return Outcome(refusal=error.message)
    best = choice.best_of_whole_sums
    part, candidate = best.partition, best.candidate
    return outcome_of(op, part, simulate(candidate.program(machine), machine), machine)


def _plan(op: Conv2d, machine: Machine, costs: Costs | None = None) -> Outcome:
    candidate = best_plan(op, machine)
    part = next((p for p in split(op, machine.groups.count) if p.kind == "rows"), None)
    if candidate is None or part is None:
        return Outcome(refusal=f"swDNN has no plan for {op.describe()}")
    run = simulate(candidate.program(machine), machine, costs=costs)
    return outcome_of(op, part, run, machine)


def speedups(found: Iterable[Pair]) -> list[float]:
    """Speedups of the pairs that have both versions."""
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
    """Mean shares of time in both versions, which explain the speedup."""
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
