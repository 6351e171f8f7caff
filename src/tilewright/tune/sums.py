"""Addition of partial results, where core groups divide the sums of an operator.

In: a partition of the sums and the seed of its pieces. Out: the operator that each group computes
behind its piece, an ordinary map over its share of the elements of all partial results. These lie
in the storage order of the seed, so that they are added place by place.
"""

from __future__ import annotations

from math import prod

from tilewright.common.dtypes import dtype
from tilewright.common.expr import evaluate
from tilewright.cost.prices import call_costs
from tilewright.ir.primitives import Map
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.ops.access import straight
from tilewright.ops.mapping import InMemory
from tilewright.partition import Partition, split_sums
from tilewright.seeds.space import Seed, bindings


def divided_sums(op: Op, machine: Machine) -> list[Partition]:
    """The ways to divide the sums of `op`, where the machine can add up partial results."""
    able = Map in call_costs(machine) and op.numerics.is_float
    return split_sums(op, machine.groups.count) if able else []


def adding(partition: Partition, seed: Seed, machine: Machine) -> InMemory:
    """The sum of the partial results on one group: equal shares of the stored result, rounded up to
    the next address at which a transfer may begin, so that the last share may reach beyond it.
    """
    op, groups = partition.piece, len(partition.pieces)
    values = bindings(op, seed)[0]
    (result,) = (t for t in seed.tensors if t.name == seed.result)
    elements = prod(int(evaluate(extent, values)) for _, extent in result.dims)
    unit = max(1, machine.main.alignment_bytes // dtype(op.dtype).size_bytes)
    share = straight((-(-elements // (groups * unit)) * unit,))
    terms = " + ".join(f"x{i}" for i in range(groups))
    return InMemory(share.shape, share, (share,) * groups, terms, dtype=op.dtype)
