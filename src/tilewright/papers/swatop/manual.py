"""Tuned schedules against hand-made ones, both in the same simulator (swATOP 5.1).

In: operators and an algorithm. Out: a `Pair` for each: the model's pick and a stand-in for the best
manual version. For implicit GEMM these are swDNN's plans with their own rule for blocks and the
matrix product of its public kernels; for explicit GEMM and Winograd, transforms around calls of a
matrix library (`library_calls`); for matrix products, that library itself. From the pairs of one
line of Tables 1 and 2 come its four rows: counts of faster and slower cases with average gains.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from msgspec import Struct

from tilewright.common.errors import CapacityError
from tilewright.common.expr import evaluate, free_vars
from tilewright.cost.calls import Costs
from tilewright.cost.prices import call_costs
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.ops import Conv2d, Gemm, Op, gemm
from tilewright.papers.lab import Lab
from tilewright.papers.model import Row, compare, sampled, scaled
from tilewright.papers.swatop.schedules import (
    Outcome,
    Setting,
    TuningTask,
    best_schedules,
    largest_shares,
    outcome_of,
)
from tilewright.papers.swdnn.fixed_plans import best_swdnn_plan
from tilewright.papers.swdnn.kernel import swdnn_gemm_cost
from tilewright.partition import Partition, split
from tilewright.seeds.nest import Nest, Use
from tilewright.seeds.space import Seed, parameters, seeds_for
from tilewright.seeds.steps import Layout
from tilewright.simulate.kernel.level import KernelRun, simulate
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import choose, shared_operands
from tilewright.tune.fit import main_memory_bytes
from tilewright.tune.search import rank

# Convolutions as hand-made code computes them: transforms around calls of a matrix library.
#
# In: convolutions, an algorithm, a machine. Out: an `Outcome` each. The library is that of Table 2
# (`papers.swatop.seeds`): one schedule for all sizes, copies of operands whose extents are no
# multiples, and a separate call per product. The transforms have their best schedules, since no
# fixed ones are published; that favours the manual version.


@dataclass(frozen=True)
class Calls:
    """`count` equal library calls of the product `op`; all groups read the operands `shared`."""

    op: Gemm
    shared: frozenset[str]
    count: int


@dataclass(frozen=True, eq=False)
class _Version:
    """One partition and layout of one operator: its library calls, and its seed without them."""

    op: Conv2d
    partition: Partition
    around: Seed
    shared: frozenset[str]
    calls: Calls


Priced = tuple[Candidate, KernelRun]
"""The transforms' best schedules, and one call of the library."""


def with_library_calls(ops: Sequence[Conv2d], algorithm: str, machine: Machine) -> list[Outcome]:
    """The outcome of each operator's best partition and layout, or a refusal."""
    versions = [v for op in ops for v in _versions(op, algorithm, machine)]
    best: dict[Conv2d, tuple[float, _Version, Priced]] = {}
    for version, priced in zip(versions, _priced(versions, machine), strict=True):
        if priced is not None:
            transforms, run = priced
            cycles = transforms.cycles + version.calls.count * run.cycles
            if version.op not in best or cycles < best[version.op][0]:
                best[version.op] = cycles, version, priced
    return [
        _outcome(*best[op][1:], machine)
        if op in best
        else Outcome(refusal=f"nothing fits for {op.describe()} by {algorithm}")
        for op in ops
    ]


def _outcome(version: _Version, priced: Priced, machine: Machine) -> Outcome:
    transforms, call = priced
    around = simulate(transforms.program(machine), machine)
    parts = [outcome_of(version.op, version.partition, run, machine) for run in (around, call)]
    return _together(version.op, parts, (1, version.calls.count), machine)


def _versions(op: Conv2d, algorithm: str, machine: Machine) -> Iterator[_Version]:
    for part in split(op, machine.groups.count):
        (seed,) = seeds_for(part.piece, algorithm)
        if main_memory_bytes(part.piece, seed) > machine.main.capacity_bytes:
            continue
        shared = shared_operands(part, seed)
        (product,) = (s.nest for s in seed.spaces if isinstance(s.nest.primitive, MatrixProduct))
        for joint in seed.layout_combinations():
            orders = {layout.tensor: layout.dims for layout in joint}
            calls = library_calls(product, orders, parameters(part.piece), shared)
            yield _Version(op, part, _without_products(seed, joint), shared, calls)


@cache
def _without_products(seed: Seed, joint: tuple[Layout, ...]) -> Seed:
    """The seed's transforms in one layout, cached: seeds ranked together must be identical."""
    spaces = tuple(s for s in seed.spaces if not isinstance(s.nest.primitive, MatrixProduct))
    return replace(seed, spaces=spaces, layouts=((joint,),))


def _priced(versions: Sequence[_Version], machine: Machine) -> list[Priced | None]:
    """Price of each version; None if the transforms do not fit or copies exceed main memory."""
    shared = [v.shared for v in versions]
    around = rank([(v.partition.piece, v.around) for v in versions], machine, shared=shared, keep=1)
    calls = list(dict.fromkeys((v.calls.op, v.calls.shared) for v in versions))
    products = [(op, seeds_for(op, "library")[0]) for op, _ in calls]
    rankings = rank(products, machine, shared=[names for _, names in calls], keep=1)
    called = {
        call: [simulate(best.program(machine), machine) for best in ranking.best]
        for call, ranking in zip(calls, rankings, strict=True)
    }
    found = [called[v.calls.op, v.calls.shared] for v in versions]
    both = zip(around, found, strict=True)
    return [next(((a, run) for a in own.best for run in runs), None) for own, runs in both]


def library_calls(
    product: Nest,
    orders: Mapping[str, tuple[str, ...]],
    values: Mapping[str, int],
    shared: frozenset[str],
) -> Calls:
    """The calls that compute a nest of matrix products whose tensors are stored in `orders`.

    The library computes row-major results; a column-major one is the transposed product.
    """
    letters = dict(product.roles)
    extents = {a.name: int(evaluate(a.extent, values)) for a in product.axes}
    m, n, k = (prod(extents[a] for a, x in letters.items() if x == letter) for letter in "mnk")
    count = prod(extent for name, extent in extents.items() if name not in letters)
    result, a, b = (_stored(use, letters, orders) for use in product.uses)
    left, right = (use.tensor for use in product.inputs)
    if result == "mn":
        op = gemm(m, n, k, transpose_a=a == "km", transpose_b=b == "nk")
    else:
        left, right = right, left
        op = gemm(n, m, k, transpose_a=b == "kn", transpose_b=a == "mk")
    operands = (("a", left), ("b", right))
    read = frozenset(name for name, t in operands if {t.name, t.storage} & shared)
    return Calls(op, read, count)


def _stored(use: Use, letters: Mapping[str, str], orders: Mapping[str, tuple[str, ...]]) -> str:
    """The letters of a matrix's dimensions, slowest first."""
    names = [name for name, _ in use.tensor.dims]
    indices = dict(zip(names, use.indices, strict=True))
    axes = (v for name in orders.get(use.tensor.name, names) for v in free_vars(indices[name]))
    return "".join(letters[axis] for axis in axes if axis in letters)


def _together(
    op: Conv2d, parts: Sequence[Outcome], counts: Sequence[int], machine: Machine
) -> Outcome:
    """Programs run in sequence, each as often as its count says."""
    every = list(zip(parts, counts, strict=True))
    cycles = sum(count * part.cycles for part, count in every)
    longest = max(every, key=lambda pair: pair[0].cycles * pair[1])[0]
    return Outcome(
        cycles=cycles,
        efficiency=op.flops / (cycles / machine.clock_hz * machine.peak_flops),
        engine_cycles=sum(count * part.engine_cycles for part, count in every),
        bound=longest.bound,
        causes=_sums([(part.causes, count) for part, count in every]),
        waits=_sums([(part.waits, count) for part, count in every]),
        partition=parts[0].partition,
    )


def _sums(parts: Sequence[tuple[Mapping[str, int], int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for cycles, count in parts:
        for name, own in cycles.items():
            total[name] = total.get(name, 0) + count * own
    return total


IMPLICIT, LIBRARY = "implicit", "library"
Named = Mapping[str, Conv2d | Gemm]

TUNED = {
    IMPLICIT: (IMPLICIT, "implicit_fours", "implicit_columns", "implicit_rows"),
    "explicit": ("explicit", "explicit_fused"),
    "winograd2": ("winograd2", "winograd4", "winograd2_fused", "winograd2_fours"),
}
"""Algorithms that the tuner chooses from for each manual one; the fastest by simulation is used.
Image storage, loop order, Winograd tile size and scratchpad residency are part of tuning."""


@dataclass(frozen=True)
class Pair:
    """One operator in both versions."""

    name: str
    op: Op
    tuned: Outcome
    manual: Outcome

    @property
    def speedup(self) -> float | None:
        """Cycles of the manual version over those of the tuned one; None if one is missing."""
        if self.tuned.refusal or self.manual.refusal:
            return None
        return self.manual.cycles / self.tuned.cycles


def pairs(lab: Lab, ops: Named, algorithm: str, on: Setting) -> list[Pair]:
    """Every operator by the algorithm, tuned and manual."""
    manual = lab.map_together(
        manual_schedules, [TuningTask(op, algorithm, on) for op in ops.values()]
    )
    return _paired(ops, _tuned(lab, ops, TUNED.get(algorithm, (algorithm,)), on), manual)


def alike(lab: Lab, ops: Named, algorithm: str, on: Setting) -> list[Pair]:
    """The pairs with a smaller difference: our matrix product in swDNN's plans for implicit GEMM,
    and no choice among algorithms for the others.
    """
    tasks = [TuningTask(op, algorithm, on) for op in ops.values()]
    implicit = algorithm == IMPLICIT
    version = plans_with_our_product if implicit else manual_schedules
    names = TUNED[IMPLICIT] if implicit else (algorithm,)
    return _paired(ops, _tuned(lab, ops, names, on), lab.map_together(version, tasks))


def _tuned(lab: Lab, ops: Named, algorithms: Sequence[str], on: Setting) -> list[Outcome]:
    """The fastest outcome of each operator over the algorithms."""
    choices = [
        lab.map_together(best_schedules, [TuningTask(op, name, on) for op in ops.values()])
        for name in algorithms
    ]
    return [min(found, key=_time) for found in zip(*choices, strict=True)]


def _paired(ops: Named, tuned: Sequence[Outcome], manual: Sequence[Outcome]) -> list[Pair]:
    found = zip(ops.items(), tuned, manual, strict=True)
    return [Pair(name, op, *both) for (name, op), *both in found]


def _time(outcome: Outcome) -> tuple[bool, int]:
    return bool(outcome.refusal), outcome.cycles


def manual_schedules(tasks: Sequence[TuningTask]) -> list[Outcome]:
    """The manual versions of tasks, simulated."""
    alike: dict[tuple[str, Setting], list[TuningTask]] = {}
    for task in tasks:
        alike.setdefault((task.algorithm, task.on), []).append(task)
    found: dict[TuningTask, Outcome] = {}
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


def plans_with_our_product(tasks: Sequence[TuningTask]) -> list[Outcome]:
    """swDNN's plans of convolutions with our matrix primitive in place of its own."""
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
    candidate = best_swdnn_plan(op, machine)
    part = next((p for p in split(op, machine.groups.count) if p.kind == "rows"), None)
    if candidate is None or part is None:
        return Outcome(refusal=f"swDNN has no plan for {op.describe()}")
    run = simulate(candidate.program(machine), machine, costs=costs)
    return outcome_of(op, part, run, machine)


def speedups(found: Iterable[Pair]) -> list[float]:
    """Speedups of the pairs that have both versions."""
    return [pair.speedup for pair in found if pair.speedup is not None]


def pair_row(pair: Pair) -> Row:
    """The speedup of one pair with both efficiencies, or the reason why there is none."""
    if pair.speedup is None:
        missing = pair.manual if pair.manual.refusal else pair.tuned
        return compare(pair.name, None, None, "simulated", note=missing.refusal, unit="x")
    note = f"{100 * pair.tuned.efficiency:.0f} % of the peak, {100 * pair.manual.efficiency:.0f} %"
    if pair.manual.cycles < pair.tuned.cycles:
        note += "; slower"
    return compare(pair.name, None, pair.speedup, "simulated", note=note, unit="x")


def average(found: Sequence[Pair]) -> float | None:
    """Mean speedup; None if no pair has one."""
    values = speedups(found)
    return statistics.fmean(values) if values else None


def speedup_summary(name: str, found: Sequence[Pair]) -> dict[str, float | str]:
    """Mean and least speedup for the summary of an experiment, if any."""
    values = speedups(found)
    if not values:
        return {}
    mean = round(statistics.fmean(values), 3)
    return {f"{name}: mean speedup": mean, f"{name}: least speedup": round(min(values), 3)}


def evidence(found: Sequence[Pair]) -> str:
    """The largest mean shares of time in both versions, as evidence for the speedup."""
    both = [pair for pair in found if pair.speedup is not None]
    tuned, manual = [p.tuned for p in both], [p.manual for p in both]
    return f"tuned: {largest_shares(tuned, 3)}; manual: {largest_shares(manual, 3)}"


class Counted(Struct, frozen=True):
    """One printed line of a table; a percentage is None where none is printed."""

    faster: int
    slower: int
    faster_percent: float | None = None
    slower_percent: float | None = None


def count_rows(name: str, printed: Counted, found: Sequence[Pair], total: int) -> Iterator[Row]:
    """Rows of faster and slower cases and their gains; counts are scaled up to `total` cases."""
    values = speedups(found)
    faster, slower = [v for v in values if v >= 1], [v for v in values if v < 1]
    alone = sum(1 for p in found if p.manual.refusal and not p.tuned.refusal)
    scale = total / max(1, len(found))
    of = scaled(len(found), total)
    note = "; ".join(filter(None, (f"{alone} have no manual version" if alone else "", of)))
    for what, count, own in (
        ("faster", printed.faster, len(faster) + alone),
        ("slower", printed.slower, len(slower)),
    ):
        yield _explained(f"{name}: {what}", count, own * scale, found, note, "cases")
    for what, percent, group in (
        ("gain of the faster", printed.faster_percent, faster),
        ("loss of the slower", printed.slower_percent, slower),
    ):
        own_percent = 100 * (statistics.fmean(group) - 1) if group else None
        of = sampled(len(found), total)
        yield _explained(f"{name}: {what}", percent, own_percent, found, of, "%")


def _explained(
    name: str,
    published: float | None,
    ours: float | None,
    found: Sequence[Pair],
    note: str,
    unit: str,
) -> Row:
    reason = evidence(found)
    if published == 0 and ours:
        note, reason = "; ".join(filter(None, (note, reason))), ""
    return compare(name, published, ours, "simulated", note=note, unit=unit, explanation=reason)
