"""Divisions: which core computes which region of a layer's result, from which terms of its sums.

In: a layer and a `Grid`, one list of intervals for each dimension of the result and of the sums.
Out: a `Division` with one share for each cell. Shares may differ in size, and cores may have none.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from tilewright.ops.box import Box, Interval
from tilewright.partition.layers import Layer

Cut = tuple[Interval, ...]
"""Disjoint intervals that cover one extent."""


@dataclass(frozen=True)
class Grid:
    """How each dimension of a result is cut, and of its sums, where those are divided."""

    result: tuple[Cut, ...]
    terms: tuple[Cut, ...] = ()

    @property
    def counts(self) -> tuple[int, ...]:
        """Intervals along each dimension of the result."""
        return tuple(map(len, self.result))

    @property
    def parts(self) -> int:
        """Parts of each sum."""
        return math.prod(map(len, self.terms))

    @property
    def cells(self) -> int:
        """Shares: one for each region of the result and each part of its sums."""
        return math.prod(self.counts) * self.parts

    def describe(self) -> str:
        """Intervals along each dimension.

        >>> Grid((cut(1, 1), cut(64, 64), cut(224, 4), cut(224, 224))).describe()
        '1x1x56x1'
        """
        text = "x".join(map(str, self.counts))
        return f"{text} sums {'x'.join(str(len(c)) for c in self.terms)}" if self.terms else text


@dataclass(frozen=True)
class Share:
    """What one core does in a layer.

    It adds up the `terms` (all without them) of the region `summed` of the first step's result; of
    the layer's result it finishes and keeps the region `kept`.
    """

    kept: Box
    summed: Box
    terms: Box | None = None


@dataclass(frozen=True)
class Division:
    """One way to divide a layer: share j is that of core j. `partial` where sums are divided."""

    strategy: str
    grid: Grid
    shares: tuple[Share, ...]

    @property
    def partial(self) -> bool:
        """Whether cores exchange parts of sums before they finish the result."""
        return self.grid.parts > 1

    @property
    def tile(self) -> tuple[int, ...]:
        """The extents of the largest region that a core sums up."""
        return max((share.summed.shape for share in self.shares), key=math.prod)


def cut(extent: int, tile: int) -> Cut:
    """Intervals of `tile`, the last with what is left.

    >>> cut(28, 8)
    ((0, 8), (8, 16), (16, 24), (24, 28))
    """
    return tuple((a, min(a + tile, extent)) for a in range(0, extent, tile))


def even_cut(extent: int, parts: int) -> Cut:
    """As many intervals as `parts`, whose lengths differ by one at most; fewer of a smaller extent.

    >>> even_cut(7, 3)
    ((0, 2), (2, 4), (4, 7))
    """
    count = min(parts, extent)
    ends = [i * extent // count for i in range(count + 1)]
    return tuple(itertools.pairwise(ends))


def divide(layer: Layer, grid: Grid, strategy: str) -> Division:
    """The division of `layer` along `grid`; cores are numbered along its last dimension first.

    Where sums are divided, the cores of one region finish an equal part of it each, cut along its
    longest dimension.
    """
    shares = []
    terms = [Box.of(*sides) for sides in itertools.product(*grid.terms)] if grid.terms else [None]
    for sides in itertools.product(*grid.result):
        region = Box.of(*sides)
        summed = layer.regions(region)[0]
        for part, kept in zip(terms, _scattered(region, len(terms)), strict=True):
            shares.append(Share(kept, summed, part))
    return Division(strategy, grid, tuple(shares))


def _scattered(region: Box, parts: int) -> list[Box]:
    """The region in `parts`, the last ones empty where it has too few elements along its longest
    dimension.
    """
    if parts == 1:
        return [region]
    longest = max(range(len(region.shape)), key=lambda d: region.shape[d])
    first, _ = region.sides[longest]
    found = [
        region.along(longest, (first + a, first + b))
        for a, b in even_cut(region.shape[longest], parts)
    ]
    return found + [Box(region.start, region.start)] * (parts - len(found))
