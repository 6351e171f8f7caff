"""Divisions: which core computes which region of a layer's result, from which terms of its sums.

In: a layer and a `Grid`. Out: a `Division` with one share for each cell. Shares may differ in size,
and cores may have none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.ops.box import Box
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
