"""Divisions: which core computes which region of a layer's result, from which terms of its sums.

In: a layer and a `Grid`, one list of intervals for each dimension of the result and of the sums.
Out: the regions of its cells, as arrays for many grids at once or as a `Division` with one share
for each cell. Shares may differ in size, and cores may have none.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.ops.box import Box, Interval
from tilewright.partition.layers import Layer

Cut = tuple[Interval, ...]
"""Intervals that cover one extent, in order."""
Regions = NDArray[np.int64]
"""Boxes as an array: the last two dimensions are the box's dimensions, and first and last."""


_DIMENSIONS = ("images", "channels", "rows", "columns")


@dataclass(frozen=True)
class Grid:
    """How each dimension of a result is cut, and of its sums, where those are divided.

    Intervals of the result may overlap: cores then compute the same elements. Cells are numbered
    along the last dimension first, the terms' behind the result's.
    """

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

    @cached_property
    def cells(self) -> int:
        """Shares: one for each region of the result and each part of its sums."""
        return math.prod(self.counts) * self.parts

    @cached_property
    def overlaps(self) -> bool:
        """Whether some cells compute the same."""
        return any(a[1] > b[0] for cuts in self.result for a, b in itertools.pairwise(cuts))

    def describe(self) -> str:
        """Intervals along each dimension.

        >>> Grid((cut(1, 1), cut(64, 64), cut(224, 4), cut(224, 224))).describe()
        '1x1x56x1'
        """
        text = "x".join(map(str, self.counts)) + (" overlapping" if self.overlaps else "")
        return f"{text} sums {'x'.join(str(len(c)) for c in self.terms)}" if self.terms else text

    def divides(self) -> str:
        """What is cut.

        >>> Grid((cut(1, 1), cut(64, 32), cut(28, 7), cut(28, 28)), (cut(9, 3),)).divides()
        'channels x rows, sums'
        >>> Grid((cut(1, 1), cut(64, 64))).divides()
        'nothing'
        """
        names = itertools.zip_longest(_DIMENSIONS[: len(self.result)], self.counts)
        found = " x ".join(name or "others" for name, count in names if count > 1)
        words = [*([found] if found else []), *(["sums"] if self.parts > 1 else [])]
        return ", ".join(words) or "nothing"


@dataclass(frozen=True)
class Share:
    """What one core does in a layer.

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
        """Whether cores exchange parts of sums before they finish the result."""
        return self.grid.parts > 1

    @property
    def tile(self) -> tuple[int, ...]:
        """The extents of the largest region that a core sums up."""
        return max((share.summed.shape for share in self.shares), key=math.prod)


@dataclass(frozen=True)
class Cells:
    """The regions of every cell of one grid: of the layer's result (`region`), which several cells
    have in common where sums are divided, the part of it that the cell keeps, the part of that
    which no other cell owns, and its terms.
    """

    region: Regions
    kept: Regions
    owned: Regions
    terms: Regions


def cut(extent: int, tile: int) -> Cut:
    """Intervals of `tile`, the last with what is left.

    >>> cut(28, 8)
    ((0, 8), (8, 16), (16, 24), (24, 28))
    """
    return tuple((a, min(a + tile, extent)) for a in range(0, extent, tile))


def _disjoint(cuts: Cut) -> Cut:
    """Each interval up to where the next one begins."""
    ends = (*(start for start, _ in cuts[1:]), cuts[-1][1])
    return tuple((start, end) for (start, _), end in zip(cuts, ends, strict=True))


def cells(layer: Layer, grid: Grid) -> Cells:
    """The regions of the cells of `grid`.

    Where sums are divided, the cells of one region keep an equal part of it each, cut along its
    longest dimension; the last ones nothing where that has too few elements.
    """
    whole = tuple(((0, extent),) for extent in layer.op.terms)
    cuts = (*grid.result, *(grid.terms or whole))
    counts = tuple(map(len, cuts))
    numbers = np.unravel_index(np.arange(grid.cells), counts) if counts else ()
    sides = [np.array(c, np.int64)[n] for c, n in zip(cuts, numbers, strict=True)]
    rank = len(grid.result)
    none = np.zeros((grid.cells, 0, 2), np.int64)
    region = np.stack(sides[:rank], axis=1) if rank else none
    terms = np.stack(sides[rank:], axis=1) if sides[rank:] else none
    kept = region if grid.parts == 1 else _scattered(region, grid.parts)
    owned = kept
    if grid.overlaps:
        own = [np.array(_disjoint(c), np.int64)[n] for c, n in zip(cuts, numbers, strict=True)]
        owned = np.stack(own[:rank], axis=1)
    return Cells(region, kept, owned, terms)


def divide(layer: Layer, grid: Grid, strategy: str) -> Division:
    """The division of `layer` along `grid`."""
    found = cells(layer, grid)
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


def _scattered(region: Regions, parts: int) -> Regions:
    """The part of its region that each cell keeps."""
    extents = region[:, :, 1] - region[:, :, 0]
    every = np.arange(len(region))
    longest = extents.argmax(axis=1)
    extent = extents[every, longest]
    count, number = np.minimum(extent, parts), every % parts
    first = region[every, longest, 0]
    start = first + np.minimum(number, count) * extent // count
    stop = first + np.minimum(number + 1, count) * extent // count
    kept = region.copy()
    kept[every, longest, 0], kept[every, longest, 1] = start, stop
    kept[start == stop] = 0
    return kept
