"""Convolutions as hand-made code computes them: transforms around calls of a matrix library.

In: a convolution, an algorithm, a machine. Out: an `Outcome`. The library is that of Table 2
(`seeds.gemm_padded`): one schedule for all sizes, copies of operands that are no whole multiples,
every product a call of its own. The transforms around it have their best schedules, for no fixed
ones are published: better than hand-made code, so that the comparison favours it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from tilewright.common.errors import CapacityError
from tilewright.common.expr import evaluate, free_vars
from tilewright.machine import Machine
from tilewright.ops import Conv2d, Gemm, gemm
from tilewright.papers.swatop.schedules import Outcome, outcome_of
from tilewright.partition import Partition, split
from tilewright.seeds.nest import Nest, Use
from tilewright.seeds.space import parameters, seeds_for
from tilewright.simulate.kernel_level import KernelRun, simulate
from tilewright.tune.choose import shared_operands
from tilewright.tune.fit import main_memory_bytes
from tilewright.tune.search import Candidate, rank


@dataclass(frozen=True)
class Calls:
    """Equal calls of the library: `count` products `op`; all groups read the operands `shared`."""

    op: Gemm
    shared: frozenset[str]
    count: int


@dataclass(frozen=True, eq=False)
class _Version:
    """One partition and layout: the transforms' best schedules, and the calls between them."""

    partition: Partition
    transforms: Candidate
    calls: Calls
    run: KernelRun

    @property
    def cycles(self) -> float:
        return self.transforms.cycles + self.calls.count * self.run.cycles


def with_library_calls(op: Conv2d, algorithm: str, machine: Machine) -> Outcome:
    """The best partition and layout. Errors: CapacityError where nothing fits."""
    found = [
        v for part in split(op, machine.groups.count) for v in _versions(part, algorithm, machine)
    ]
    if not found:
        raise CapacityError(f"nothing fits for {op.describe()} by {algorithm}")
    best = min(found, key=lambda version: version.cycles)
    around = simulate(best.transforms.program(machine), machine)
    parts = [outcome_of(op, best.partition, run, machine) for run in (around, best.run)]
    return _together(op, parts, (1, best.calls.count), machine)


def _versions(part: Partition, algorithm: str, machine: Machine) -> Iterator[_Version]:
    (seed,) = seeds_for(part.piece, algorithm)
    if main_memory_bytes(part.piece, seed) > machine.memory.main.capacity_bytes:
        return
    shared = shared_operands(part, seed)
    (product,) = (s.nest for s in seed.spaces if s.nest.primitive == "gemm")
    transforms = tuple(s for s in seed.spaces if s.nest != product)
    for joint in seed.layout_combinations():
        around = replace(seed, spaces=transforms, layouts=((joint,),))
        (ranking,) = rank([(part.piece, around)], machine, shared=[shared], keep=1)
        orders = {layout.tensor: layout.dims for layout in joint}
        calls = library_calls(product, orders, parameters(part.piece), shared)
        run = _library_run(calls.op, calls.shared, machine)
        if ranking.best and run:
            yield _Version(part, ranking.best[0], calls, run)


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


@cache
def _library_run(op: Gemm, shared: frozenset[str], machine: Machine) -> KernelRun | None:
    """One call of the library, simulated; None where its copies exceed main memory."""
    (seed,) = seeds_for(op, "library")
    (ranking,) = rank([(op, seed)], machine, shared=[shared], keep=1)
    return simulate(ranking.best[0].program(machine), machine) if ranking.best else None


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
