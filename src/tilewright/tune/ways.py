"""Ways to compute an operator: a partition over groups, and an algorithm for its pieces.

In: operators and a machine, and the user's restrictions. Out: for each operator, every partition
with every seed for one of its pieces. Where groups divide sums, each group computes its piece, then
an ordinary map that adds up its share of the elements of all partial results. Partial results keep
the storage order of the seed, so the map adds them element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from math import prod
from pkgutil import iter_modules

from tilewright import seeds as shipped_seeds
from tilewright.common.dtypes import dtype
from tilewright.common.errors import ScheduleError
from tilewright.common.expr import evaluate
from tilewright.cost.prices import call_costs
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Map
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.ops.access import straight
from tilewright.ops.mapping import InMemory
from tilewright.partition import Partition, split, split_sums
from tilewright.passes.lowering import lowering_of
from tilewright.seeds.space import Seed, bindings, seeds_for, takes_whole_depth
from tilewright.tune.accuracy import accurate
from tilewright.tune.fit import shortage
from tilewright.tune.legal import require_multiples, require_types, require_updates, rules_of

for _module in iter_modules(shipped_seeds.__path__):
    import_module(f"{shipped_seeds.__name__}.{_module.name}")

Way = tuple[Partition, Seed]


def ways(
    ops: Sequence[Op],
    machine: Machine,
    *,
    algorithm: str | None = None,
    partition: str | None = None,
    max_error: float | None = None,
    max_roundings: int | None = None,
    strict: bool = True,
) -> list[list[Way]]:
    """Every partition and algorithm of every operator.

    Excluded are algorithms whose expected error exceeds `max_error` (`tune.accuracy`) and, unless
    nothing else fits or `max_roundings` allows several, algorithms that cut sums where each product
    is rounded. With `strict`, `algorithm` and `partition` must apply to every operator; otherwise
    to at least one, and the others keep all their ways. Raises ScheduleError if they do not,
    CapacityError for an element type that the machine does not compute with, and ShapeError for
    extents that its primitive does not multiply.
    """
    for op in ops:
        require_types(op, machine)
        require_multiples(op, machine)
        require_updates(op, machine)
    found: list[list[Way]] = []
    refused: list[ScheduleError] = []
    for op in ops:
        try:
            found.append(_ways(op, machine, algorithm, partition, (max_error, max_roundings)))
        except ScheduleError as error:
            refused.append(error)
            if strict or len(refused) == len(ops):
                raise refused[0] from None
            found.append(_ways(op, machine, None, None, (max_error, max_roundings)))
    return found


def _ways(
    op: Op,
    machine: Machine,
    algorithm: str | None,
    partition: str | None,
    limits: tuple[float | None, int | None],
) -> list[Way]:
    """Ways of one operator; `limits` are `max_error` and `max_roundings`. An algorithm need not
    apply to the pieces of every partition.
    """
    max_error, max_roundings = limits
    found: list[Way] = []
    refused: list[ScheduleError] = []
    lowering = lowering_of(machine)
    kind = {"addressed": rules_of(machine).in_place, "whole": lowering.any_extent}
    for part in _partitions(op, machine, partition):
        try:
            own = _priced(seeds_for(part.piece, algorithm, **kind), machine)
            if not algorithm:
                outdone = lowering.outdone(part.piece, machine)
                own = [seed for seed in own if seed.name not in outdone] or own
            own = accurate(part.piece, own, machine, max_error, algorithm)
            if not algorithm and (max_roundings or 1) == 1:
                own = _rounded_once(part.piece, own, machine)
            found += [(part, seed) for seed in own]
        except ScheduleError as error:
            refused.append(error)
    if not found:
        seeds_for(op, algorithm, **kind)  # refuses in words of the whole operator, if it can
        raise refused[0]
    return found


def _rounded_once(op: Op, seeds: list[Seed], machine: Machine) -> list[Seed]:
    """The seeds of whole depth, if any fit the machine: cut sums are rounded more often than the
    operator says.
    """
    whole = [s for s in seeds if takes_whole_depth(op.kind, s.name)]
    return [s for s in whole if shortage(op, s, machine) is None] or seeds


def _priced(seeds: Sequence[Seed], machine: Machine) -> list[Seed]:
    """The seeds whose every primitive the machine has, including those that prepare operands and
    finish results. Raises ScheduleError if none is left.
    """
    costs, absent = call_costs(machine), lowering_of(machine).lacking
    lacking = {
        seed.name: primitive.name
        for seed in seeds
        for primitive in _primitives(seed)
        if type(primitive.executed) not in costs
    }
    if len(lacking) == len(seeds):
        why = ", ".join(f"{name} needs {primitive!r}" for name, primitive in lacking.items())
        raise ScheduleError(
            f"machine {machine.name!r} lacks primitives: {why}",
            fix=f"it has {', '.join(kind.name for kind in costs)}",
        )
    priced = [seed for seed in seeds if seed.name not in lacking]
    kinds = {s.name: [type(one.executed) for one in _primitives(s)] for s in priced}
    found = [seed for seed in priced if not absent.keys() & kinds[seed.name]]
    if not found:
        raise next(error for kind, error in absent.items() if kind in kinds[priced[0].name])
    return found


def _primitives(seed: Seed) -> list[Primitive]:
    """Primitives that a seed's nests call: first the innermost ones, then those around them."""
    nests = [space.nest for space in seed.spaces]
    around = [(n.before, n.epilogue, n.after, n.pooling) for n in nests]
    beside = [one.primitive for several in around for one in several if one is not None]
    return [*(n.primitive for n in nests), *beside]


def _partitions(op: Op, machine: Machine, only: str | None) -> list[Partition]:
    found = [*split(op, machine.groups.count), *divided_sums(op, machine)]
    chosen = [part for part in found if only in (None, part.kind)]
    if not chosen:
        kinds = ", ".join(part.kind for part in found)
        raise ScheduleError(
            f"{op.describe()} is not divided over {only!r} on {machine.groups.count} core groups",
            fix=f"choose one of {kinds}",
        )
    return chosen


def divided_sums(op: Op, machine: Machine) -> list[Partition]:
    """The ways to divide the sums of `op`; none if the machine cannot add up partial results."""
    able = Map in call_costs(machine) and op.numerics.is_float
    return split_sums(op, machine.groups.count) if able else []


def adding(partition: Partition, seed: Seed, machine: Machine) -> InMemory:
    """The map by which one group adds up its share of the partial results. Shares of the stored
    result are equal and rounded up to the alignment of transfers, so the last may extend beyond it.
    """
    op, groups = partition.piece, len(partition.pieces)
    values = bindings(op, seed)[0]
    (result,) = (t for t in seed.tensors if t.name == seed.result)
    elements = prod(int(evaluate(extent, values)) for _, extent in result.dims)
    unit = max(1, machine.main.alignment_bytes // dtype(op.dtype).size_bytes)
    share = straight((-(-elements // (groups * unit)) * unit,))
    terms = " + ".join(f"x{i}" for i in range(groups))
    return InMemory(share.shape, share, (share,) * groups, terms, dtype=op.dtype)
