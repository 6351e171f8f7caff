"""Who computes what of a layer: a division gives each core its share, a share is one or two parts.

In: a layer and a `Grid`. Out: a `Division` with one share for each cell; shares may differ in size,
and cores may have none. Of a share: its `Part`s, operators that follow each other on what the core
has. Shares of equal extents have equal parts, wherever their regions lie, so that a layer on many
cores has few different ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.common.progress import Progress, silent
from tilewright.ops.box import Box
from tilewright.ops.op import Array, Op
from tilewright.partition.grids import Grid, Grids, Regions, cells_of
from tilewright.partition.layers import Layer


@dataclass(frozen=True)
class Share:
    """Work of one core in a layer.

    It adds up the `terms` (all without them) of the region `summed` of the first step's result; of
    the layer's result it finishes and keeps the region `kept`. Where such regions overlap, others
    get from it what is `owned`.
    """

    kept: Box
    summed: Box
    owned: Box
    terms: Box | None = None


@dataclass(frozen=True)
class Division:
    """One way to divide a layer: share j is that of core j. `partial` where sums are divided."""

    strategy: str
    grid: Grid
    shares: tuple[Share, ...]

    @property
    def partial(self) -> bool:
        """True if cores exchange partial sums before they finish the result."""
        return self.grid.parts > 1

    @property
    def tile(self) -> tuple[int, ...]:
        """The extents of the largest region that a core sums up."""
        return max((share.summed.shape for share in self.shares), key=math.prod)


def divide(layer: Layer, grid: Grid, strategy: str) -> Division:
    """The division of `layer` along `grid`."""
    found = cells_of(Grids.of(layer, [grid]))
    shares = []
    every = zip(found.region, found.kept, found.owned, found.terms, strict=True)
    for region, kept, owned, terms in every:
        summed = layer.regions(box_of(region))[0]
        given = box_of(terms) if grid.parts > 1 else None
        shares.append(Share(box_of(kept), summed, box_of(owned), given))
    return Division(strategy, grid, tuple(shares))


def box_of(region: Regions) -> Box:
    """One box of an array."""
    return Box(tuple(region[:, 0].tolist()), tuple(region[:, 1].tolist()))


Operands = Sequence[Sequence[Array]]
"""The operands of each operator; of all but the first without the result of the one before."""


@dataclass(frozen=True)
class Part:
    """Operators of which each but the first takes the result of the one before and weights;
    `weights` says which operands of the first are weights.
    """

    ops: tuple[Op, ...]
    weights: tuple[bool, ...]


@dataclass(frozen=True)
class PartTime:
    """Cycles of a part's programs on one core: those in which it computes, and all, where what is
    read and written passes its ports tile by tile.
    """

    compute_cycles: float
    streamed_cycles: float


Times = Mapping[Part, PartTime]
"""The time of each part."""
Computes = Callable[[Part, Operands], Array]
"""The result of a part."""


class Programs(Protocol):
    """Programs that compute parts on the cores of one machine."""

    def times(self, parts: Mapping[Part, str], progress: Progress = silent) -> Times:
        """The time of each part; `parts` gives each the name of a layer, for refusals."""

    def compute(self, part: Part, operands: Operands) -> Array:
        """The result of a part."""


def parts_of(layer: Layer, share: Share) -> tuple[Part, ...]:
    """The parts that a core computes of a layer: a single one if its sums are whole, else the sums,
    then the other steps on those sums that it finishes.
    """
    computed, regions = layer.op.computable(share.summed, share.terms), layer.regions(share.kept)
    needed = zip(layer.steps[0].operands, layer.op.needed(computed, share.terms), strict=True)
    weights = tuple(name not in layer.reads for name, box in needed if box.size)
    first = layer.op.part(computed, share.terms)
    pairs = list(zip(layer.steps[1:], regions[1:], strict=True))
    behind = tuple(step.op.part(region) for step, region in pairs if region.size)
    if share.terms is None and computed == regions[0]:
        return (Part((first, *behind), weights),)
    sums = Part((first,), weights)
    if not behind:
        return (sums,)
    others = len(layer.steps[1].operands) - 1
    return sums, Part(behind, (False, *[True] * others))


def work_of(layer: Layer, share: Share) -> float:
    """A core's fraction of the operations of a layer's first step."""
    op = layer.op
    return _terms_added(layer, share) / (Box.whole(op.terms).size * Box.whole(op.out_shape).size)


def imbalance(layer: Layer, shares: Iterable[Share]) -> float:
    """Terms added by the busiest core over the average of all cores that compute."""
    work = [one for share in shares if (one := _terms_added(layer, share))]
    return max(work) * len(work) / sum(work) if work else 1.0


def _terms_added(layer: Layer, share: Share) -> int:
    """Terms that a core adds up for all elements that it computes of the first step."""
    terms = Box.whole(layer.op.terms) if share.terms is None else share.terms
    return layer.op.computable(share.summed, share.terms).size * terms.size


def by_reference(part: Part, operands: Operands) -> Array:
    """The result of a part, each operator by its reference."""
    value = part.ops[0].reference(*operands[0])
    for op, own in zip(part.ops[1:], operands[1:], strict=True):
        value = op.reference(value, *own)
    return value
