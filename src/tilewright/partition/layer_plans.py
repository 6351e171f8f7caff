"""A plan as data: who reads, computes and keeps what of each layer, and who sends what to whom.

In: a plan. Out: a `LayerPlan` for each layer, the form of `plan.json`: with the network, all that a
runtime needs (docs/reference/partition.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from tilewright.ops.box import Box
from tilewright.partition.division import Share
from tilewright.partition.execute import SUMS
from tilewright.partition.layers import Layer
from tilewright.partition.moves import Exchanges, Move
from tilewright.partition.plan import PartitionPlan, Planned

Region = tuple[tuple[int, int], ...]
"""[first, one past the last] of each dimension."""


class SharePlan(Struct, frozen=True):
    """One core's part of a layer: it `reads` regions of tensors that it has or gets, takes regions
    of `weights` in the operator's shape, adds up some or all terms of the first operator's result,
    and keeps a region of the layer's.
    """

    core: int
    keeps: Region
    adds_up: Region
    terms: Region | None
    reads: Mapping[str, Region]
    weights: Mapping[str, Region]


class MovePlan(Struct, frozen=True):
    """A region of a `tensor` sent to several cores, to each in a round of its own: `rounds` has
    that of each target. Of each tensor what is of one round is sent together, lower rounds first.
    """

    tensor: str
    source: int
    targets: tuple[int, ...]
    rounds: tuple[int, ...]
    region: Region
    adds: bool


class LayerPlan(Struct, frozen=True):
    """Plan of one layer: the share of each core, the moves before it and, for sums, those behind
    it.
    """

    name: str
    result: str
    strategy: str
    shares: tuple[SharePlan, ...]
    moves: tuple[MovePlan, ...]


def layer_plans(plan: PartitionPlan) -> list[LayerPlan]:
    """Every share and every move, the layers in the order in which they are computed."""
    both = zip(plan.layers, plan.exchanges, strict=True)
    return [_layer_plan(planned, sent, plan.cores) for planned, sent in both]


def _layer_plan(planned: Planned, exchanges: Exchanges, cores: int) -> LayerPlan:
    layer, shares = planned.layer, zip(planned.cores, planned.division.shares, strict=True)
    named = [*exchanges.inputs, (layer.output + SUMS, exchanges.sums)]
    return LayerPlan(
        layer.name,
        layer.output,
        planned.division.strategy,
        tuple(_share_plan(layer, core, share) for core, share in shares),
        tuple(one for name, sent in named for one in _move_plans(name, sent, cores)),
    )


def _share_plan(layer: Layer, core: int, share: Share) -> SharePlan:
    return SharePlan(
        core,
        share.kept.sides,
        share.summed.sides,
        None if share.terms is None else share.terms.sides,
        _sides(layer.needed(share.summed, share.terms)),
        _sides(layer.weights(share.summed, share.terms, share.kept)),
    )


def _sides(named: Iterable[tuple[str, Box]]) -> dict[str, Region]:
    return {name: box.sides for name, box in named}


def _move_plans(tensor: str, sent: Iterable[Move], cores: int) -> Iterator[MovePlan]:
    for move in sent:
        rounds = tuple((target - move.source) % cores for target in move.targets)
        yield MovePlan(tensor, move.source, move.targets, rounds, move.box.sides, move.adds)
