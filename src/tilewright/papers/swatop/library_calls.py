"""Convolutions as hand-made code computes them: transforms around calls of a matrix library.

In: convolutions, an algorithm, a machine. Out: an `Outcome` each. The library is that of Table 2
(`papers.swatop.seeds`): one schedule for all sizes, copies of operands that are no whole multiples,
every product a call of its own. The transforms around it have their best schedules, for no fixed
ones are published: better than hand-made code, so that the comparison favours it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from tilewright.common.expr import evaluate, free_vars
from tilewright.ir.primitives import MatrixProduct
from tilewright.machine import Machine
from tilewright.ops import Conv2d, Gemm, gemm
from tilewright.papers.swatop.schedules import Outcome, outcome_of
from tilewright.partition import Partition, split
from tilewright.seeds.nest import Nest, Use
from tilewright.seeds.space import Seed, parameters, seeds_for
from tilewright.seeds.steps import Layout
from tilewright.simulate.kernel.level import KernelRun, simulate
from tilewright.tune.candidate import Candidate
from tilewright.tune.choose import shared_operands
from tilewright.tune.fit import main_memory_bytes
from tilewright.tune.search import rank


@dataclass(frozen=True)
class Calls:
    """Equal calls of the library: `count` products `op`; all groups read the operands `shared`."""

    op: Gemm
    shared: frozenset[str]
    count: int


@dataclass(frozen=True, eq=False)
class _Version:
    """One partition and layout of one operator: what calls it makes, and its seed without them."""

    op: Conv2d
    partition: Partition
    around: Seed
    shared: frozenset[str]
    calls: Calls


Priced = tuple[Candidate, KernelRun]
"""The transforms' best schedules, and one call of the library."""


def with_library_calls(ops: Sequence[Conv2d], algorithm: str, machine: Machine) -> list[Outcome]:
    """The best partition and layout of each operator, or why there is none."""
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
    """The transforms in one layout; one value each, for what is ranked together has the same."""
    spaces = tuple(s for s in seed.spaces if not isinstance(s.nest.primitive, MatrixProduct))
    return replace(seed, spaces=spaces, layouts=((joint,),))


def _priced(versions: Sequence[_Version], machine: Machine) -> list[Priced | None]:
    """Price of each version; None if the transforms do not fit or copies exceed main memory."""
    shared = [v.shared for v in versions]
    around = rank([(v.partition.piece, v.around) for v in versions], machine, shared=shared, keep=1)
    calls = list(dict.fromkeys((v.calls.op, v.calls.shared) for v in versions))
    products = [(op, seeds_for(op, "library")[0]) for op, _ in calls]
    rankings = rank(products, machine, shared=[names for _, names in calls], keep=1)
    runs = {
        call: simulate(ranking.best[0].program(machine), machine)
        for call, ranking in zip(calls, rankings, strict=True)
        if ranking.best
    }
    found = [runs.get((v.calls.op, v.calls.shared)) for v in versions]
    pairs = zip(around, found, strict=True)
    return [(ranking.best[0], run) if ranking.best and run else None for ranking, run in pairs]


def library_calls(
    product: Nest,
    orders: Mapping[str, tuple[str, ...]],
    values: Mapping[str, int],
    shared: frozenset[str],
) -> Calls:
    """The calls that compute a nest of matrix products whose tensors are stored in `orders`.

    The library computes a result by rows; one that lies by columns is the product transposed.
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
    """Programs one after the other, each as often as its count says."""
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
