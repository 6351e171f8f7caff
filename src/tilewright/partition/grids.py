"""Grids: how the result of a layer, and its sums, are cut into cells, one for each core.

A `Grid` is one list of intervals for each axis: the dimensions of the result, then those of the
sums. `Grids` holds many grids of one layer as arrays, and `parts_in` computes the regions of all
their cells at once. Strategies combine cuts of single extents into grids.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.ops.box import Box, Interval
from tilewright.partition.compiled import sides_of_cells
from tilewright.partition.layers import Layer

Cut = tuple[Interval, ...]
"""Intervals that cover one extent, in order."""
Regions = NDArray[np.int64]
"""Boxes as an array, (..., dimension, first and one past the last)."""
Integers = NDArray[np.int64]
Numbers = NDArray[np.intp]
_MARKS = 8
"""Table entries per number up to which `numbered` marks codes in a table instead of sorting."""

_DIMENSIONS = ("images", "channels", "rows", "columns")


@dataclass(frozen=True)
class Grid:
    """Cuts of each dimension of a result, and of its sums where those are divided.

    Intervals of the result may overlap: several cores then compute the same elements. Cells are
    numbered in row-major order over the result's dimensions, then the terms', so that the last
    varies fastest; where the grid is `turned`, the first does.
    """

    result: tuple[Cut, ...]
    terms: tuple[Cut, ...] = ()
    turned: bool = False

    @property
    def counts(self) -> tuple[int, ...]:
        """Intervals along each dimension of the result."""
        return tuple(map(len, self.result))

    @property
    def parts(self) -> int:
        """Number of parts of each sum."""
        return math.prod(map(len, self.terms))

    @cached_property
    def cells(self) -> int:
        """Number of cells, one for each region of the result and each part of its sums."""
        return math.prod(self.counts) * self.parts

    @cached_property
    def overlaps(self) -> bool:
        """True if cells overlap, so that several compute the same elements."""
        return any(a[1] > b[0] for cuts in self.result for a, b in itertools.pairwise(cuts))

    def describe(self) -> str:
        """Intervals along each dimension; an asterisk where the grid is turned.

        >>> Grid((cut(1, 1), cut(64, 64), cut(224, 4), cut(224, 224))).describe()
        '1x1x56x1'
        >>> Grid((cut(64, 32), cut(28, 7)), turned=True).describe()
        '2x4*'
        """
        text = "x".join(map(str, self.counts)) + "*" * self.turned
        text += " overlapping" if self.overlaps else ""
        return f"{text} sums {'x'.join(str(len(c)) for c in self.terms)}" if self.terms else text

    def divides(self) -> str:
        """The dimensions that are cut.

        >>> Grid((cut(1, 1), cut(64, 32), cut(28, 7), cut(28, 28)), (cut(9, 3),)).divides()
        'channels x rows, sums'
        >>> Grid((cut(1, 1), cut(64, 64))).divides()
        'nothing'
        """
        names = itertools.zip_longest(_DIMENSIONS[: len(self.result)], self.counts)
        found = " x ".join(name or "others" for name, count in names if count > 1)
        words = [*([found] if found else []), *(["sums"] if self.parts > 1 else [])]
        return ", ".join(words) or "nothing"


def cut(extent: int, tile: int) -> Cut:
    """Intervals of length `tile`; the last one covers the remainder.

    >>> cut(28, 8)
    ((0, 8), (8, 16), (16, 24), (24, 28))
    """
    return tuple((a, min(a + tile, extent)) for a in range(0, extent, tile))


def balanced(extent: int, parts: int) -> Cut:
    """Intervals whose lengths differ by at most one.

    >>> balanced(28, 8)
    ((0, 3), (3, 7), (7, 10), (10, 14), (14, 17), (17, 21), (21, 24), (24, 28))
    """
    ends = [extent * part // parts for part in range(parts + 1)]
    return tuple(itertools.pairwise(ends))


@dataclass(frozen=True, eq=False)
class Grids:
    """Grids of one layer: number i cuts axis a as `cuts[a][index[i, a]]` does. The first `rank`
    axes are the result's, the others those of its sums.
    """

    rank: int
    cuts: tuple[tuple[Cut, ...], ...]
    index: Integers
    turned: NDArray[np.bool_]

    @classmethod
    def products(
        cls, rank: int, cuts: Sequence[Iterable[Cut]], cores: int, *, turned: bool = False
    ) -> Grids:
        """Every combination of one cut per axis with at most `cores` cells. With `turned`, each is
        listed with both numberings of its cells, where these differ.
        """
        axes = tuple(tuple(dict.fromkeys(own)) for own in cuts)
        index, cells = np.zeros((1, 0), np.int64), np.ones(1, np.int64)
        for own in axes:
            counts = np.array([len(found) for found in own], np.int64)
            before, number = np.nonzero(cells[:, None] * counts <= cores)
            index = np.column_stack([index[before], number])
            cells = cells[before] * counts[number]
        found = cls(rank, axes, index, np.zeros(len(index), bool))
        if not turned:
            return found
        several = np.flatnonzero((found.counts > 1).sum(axis=1) > 1)
        both = np.append(np.arange(len(index)), several)
        return replace(found, index=index[both], turned=np.arange(len(both)) >= len(index))

    @classmethod
    def of(cls, layer: Layer, grids: Sequence[Grid]) -> Grids:
        """The given `grids` as arrays."""
        whole = tuple(cut(extent, extent) for extent in layer.op.terms)
        every = [(*grid.result, *(grid.terms or whole)) for grid in grids]
        rank = len(layer.shape)
        axes: list[dict[Cut, int]] = [{} for _ in range(rank + len(whole))]
        index = [
            [own.setdefault(c, len(own)) for own, c in zip(axes, one, strict=True)] for one in every
        ]
        array = np.array(index, np.int64).reshape(len(grids), len(axes))
        turned = np.array([grid.turned for grid in grids], bool)
        return cls(rank, tuple(map(tuple, axes)), array, turned)

    def __len__(self) -> int:
        """Number of grids."""
        return len(self.index)

    def __getitem__(self, which: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Grids:
        """The grids selected by index or mask, with only the cuts that they use."""
        index, cuts = np.array(self.index[which]), []
        for axis, own in enumerate(self.cuts):
            used, index[:, axis] = numbered(index[:, axis])
            cuts.append(tuple(own[number] for number in used.tolist()))
        return replace(self, cuts=tuple(cuts), index=index, turned=self.turned[which])

    def __iter__(self) -> Iterator[Grid]:
        """Each grid as a `Grid`."""
        return map(self.grid, range(len(self)))

    def grid(self, number: int) -> Grid:
        found = tuple(own[i] for own, i in zip(self.cuts, self.index[number].tolist(), strict=True))
        result, terms = found[: self.rank], found[self.rank :]
        divided = math.prod(map(len, terms)) > 1
        return Grid(result, terms if divided else (), bool(self.turned[number]))

    @cached_property
    def counts(self) -> Integers:
        """Intervals along each axis, for each grid."""
        return self.of_cuts(len)

    @cached_property
    def cells(self) -> Integers:
        return _products(self.counts)

    @cached_property
    def parts(self) -> Integers:
        """Number of parts of each sum, for each grid."""
        return _products(self.counts[:, self.rank :])

    @cached_property
    def longest(self) -> Integers:
        """The longest interval along each axis, for each grid."""
        return self.of_cuts(lambda own: max(b - a for a, b in own))

    def of_cuts(self, measure: Callable[[Cut], int]) -> Integers:
        """`measure` of the cut of each axis, for each grid: (grid, axis)."""
        found = np.empty_like(self.index)
        for axis, own in enumerate(self.cuts):
            found[:, axis] = np.array([measure(c) for c in own], np.int64)[self.index[:, axis]]
        return found


def joined(every: Sequence[Grids]) -> tuple[Grids, NDArray[np.intp]]:
    """Union of several `Grids` of one layer, and for each grid the first of `every` that has it."""
    first = every[0]
    axes: list[dict[Cut, int]] = [{} for _ in first.cuts]
    rows = []
    for grids in every:
        index = np.empty_like(grids.index)
        for axis, (known, own) in enumerate(zip(axes, grids.cuts, strict=True)):
            numbers = [known.setdefault(found, len(known)) for found in own]
            index[:, axis] = np.array(numbers, np.int64)[grids.index[:, axis]]
        rows.append(index)
    index, turned = np.concatenate(rows), np.concatenate([grids.turned for grids in every])
    origin = np.repeat(np.arange(len(every)), [len(grids) for grids in every])
    kept = np.sort(first_of_each(np.column_stack([index, turned]))[0])
    whole = Grids(first.rank, tuple(map(tuple, axes)), index[kept], turned[kept])
    return whole, origin[kept]


def first_of_each(rows: Integers) -> tuple[Numbers, Numbers]:
    """Index of the first occurrence of each distinct row, and the class number of every row."""
    codes = np.zeros(len(rows), np.intp)
    for column in rows.T:
        own, numbers = numbered(column)
        codes = numbered(codes * max(len(own), 1) + numbers)[1]
    return np.unique(codes, return_index=True)[1], codes


def numbered(codes: Integers) -> tuple[Integers, Numbers]:
    """The distinct codes in order, and each code's index among them; by a table if small."""
    most = int(codes.max(initial=0)) + 1
    if most > _MARKS * len(codes):
        found, numbers = np.unique(codes, return_inverse=True)
        return found, numbers.ravel()
    places = np.zeros(most, np.intp)
    places[codes] = 1
    found = np.flatnonzero(places)
    places[found] = np.arange(len(found))
    return found, places[codes]


@dataclass(frozen=True)
class Parts:
    """Parts of all cells of some grids, grid after grid. For each cell: the number of its `grid`,
    its `core`, its `region` of the layer's result (shared by several cells where sums are divided),
    the part of the region that it keeps, the part of `kept` that no other cell owns, and its terms.
    """

    grid: NDArray[np.intp]
    core: NDArray[np.intp]
    region: Regions
    kept: Regions
    owned: Regions
    terms: Regions


def parts_in(grids: Grids) -> Parts:
    """The parts of all cells.

    Where sums are divided, each cell of a region keeps an equal part of it, cut along its longest
    dimension; if that has fewer elements than cells, the last cells keep nothing.
    """
    grid = np.repeat(np.arange(len(grids)), grids.cells)
    core = np.arange(len(grid)) - np.repeat(np.cumsum(grids.cells) - grids.cells, grids.cells)
    strides = _strides(grids)
    region, terms = _sides(grids, strides, lambda own: own)
    parts = grids.parts[grid]
    part = np.zeros(len(grid), np.int64)
    for axis in range(grids.rank, len(grids.cuts)):
        count = grids.counts[grid, axis]
        part = part * count + core // strides[grid, axis] % count
    owned = kept = _scattered(region, parts, part)
    if any(_disjoint(cuts) != cuts for own in grids.cuts[: grids.rank] for cuts in own):
        alone, _ = _sides(grids, strides, _disjoint)
        owned = np.where((parts == 1)[:, None, None], alone, kept)
    return Parts(grid, core, region, kept, owned, terms)


def _sides(grids: Grids, strides: Integers, form: Callable[[Cut], Cut]) -> tuple[Regions, Regions]:
    """The region of the result and of the terms of each cell, with `form` applied to every cut."""
    lengths = [len(cuts) for own in grids.cuts for cuts in own]
    first = np.cumsum([0, *map(len, grids.cuts)])[:-1]
    places = np.cumsum([0, *lengths])[grids.index + first]
    sides = [side for own in grids.cuts for cuts in own for side in form(cuts)]
    table = np.array(sides, np.int64).reshape(len(sides), 2)
    found = sides_of_cells(places, strides, grids.counts, grids.cells, table)
    return found[:, : grids.rank], found[:, grids.rank :]


def _products(numbers: Integers) -> Integers:
    found: Integers = numbers.prod(axis=1, dtype=np.int64)
    return found


def _strides(grids: Grids) -> Integers:
    """Distance in cells from one interval to the next, (grid, axis)."""
    counts = np.maximum(grids.counts, 1)
    behind = np.cumprod(counts[:, ::-1], axis=1)[:, ::-1] // counts
    before = np.cumprod(counts, axis=1) // counts
    return np.where(grids.turned[:, None], before, behind)


def _disjoint(cuts: Cut) -> Cut:
    """The intervals, each shortened to end where the next one begins."""
    ends = (*(start for start, _ in cuts[1:]), cuts[-1][1])
    return tuple((start, end) for (start, _), end in zip(cuts, ends, strict=True))


def _scattered(region: Regions, parts: Integers, number: Integers) -> Regions:
    """The part of its region that each cell keeps: part `number` of `parts`."""
    several = np.flatnonzero(parts > 1)
    if not len(several):
        return region
    kept = region.copy()
    region, parts, number = region[several], parts[several], number[several]
    extents = region[:, :, 1] - region[:, :, 0]
    every = np.arange(len(region))
    longest = extents.argmax(axis=1)
    extent = extents[every, longest]
    count, first = np.minimum(extent, parts), region[every, longest, 0]
    start = first + np.minimum(number, count) * extent // count
    stop = first + np.minimum(number + 1, count) * extent // count
    region[every, longest, 0], region[every, longest, 1] = start, stop
    region[start == stop] = 0
    kept[several] = region
    return kept


BATCH, CHANNELS, ROWS, COLUMNS = range(4)
"""Dimensions of images; matrices have the first two."""
IMAGES = 4
Cuts = Callable[[int, int], list[Cut]]
"""The ways to cut an extent over a number of cores."""


def undivided(layer: Layer) -> Grid:
    """One cell: all of the layer."""
    return Grid(tuple(cut(extent, extent) for extent in layer.shape))


def along(grid: Grid, dimension: int, found: Cut) -> Grid:
    """The grid with `found` as the cut of one dimension of the result."""
    return replace(grid, result=(*grid.result[:dimension], found, *grid.result[dimension + 1 :]))


def is_independent(layer: Layer, grid: Grid) -> bool:
    """True if a cell is computed without elements of other cells; checked on the first cell."""
    cell = layer.regions(Box.of(*(cuts[0] for cuts in grid.result)))[0]
    return layer.op.computable(cell) == cell


def vector_grid(layer: Layer, cores: int) -> Grid:
    """The grid that cuts channels, or a one-dimensional result, into equal parts; undivided where
    cells would not be independent.
    """
    grid = undivided(layer)
    if not layer.shape:
        return grid
    dimension = min(CHANNELS, len(layer.shape) - 1)
    extent = layer.shape[dimension]
    divided = along(grid, dimension, cut(extent, -(-extent // cores)))
    return divided if is_independent(layer, divided) else grid


def equal_cuts(extent: int, cores: int) -> list[Cut]:
    """Cuts into tiles of one size (the last may be smaller): for each number of tiles up to `cores`
    the smallest size that covers the extent. Smallest tiles come first.
    """
    sizes = {-(-extent // parts) for parts in range(1, min(cores, extent) + 1)}
    return [cut(extent, size) for size in sorted(sizes)]


def even_cuts(extent: int, cores: int) -> list[Cut]:
    """The cuts of `equal_cuts`, and those with each size rounded up to an even one: windows of
    2 x 2 pooling never straddle even tiles.
    """
    sizes = {-(-extent // parts) for parts in range(1, min(cores, extent) + 1)}
    sizes |= {min(extent, size + size % 2) for size in sizes}
    return [cut(extent, size) for size in sorted(sizes)]


def with_balanced(cuts: Cuts) -> Cuts:
    """`cuts`, each followed by the balanced cut into equally many tiles, where that differs."""

    def found(extent: int, cores: int) -> list[Cut]:
        both = ((own, balanced(extent, len(own))) for own in cuts(extent, cores))
        return list(dict.fromkeys(one for pair in both for one in pair))

    return found


def channel_cuts(layer: Layer, cuts: Cuts, cores: int) -> list[Cut]:
    """Cuts of the channels; a grouped convolution is cut within each group or between groups."""
    op = layer.op.convolution
    if op is None:
        return cuts(layer.shape[CHANNELS], cores)
    outputs = op.out_channels // op.groups
    starts = range(0, op.out_channels, outputs)
    inside = [found for found in cuts(outputs, cores // op.groups) if len(found) > 1]
    return [
        *(tuple((s + a, s + b) for s in starts for a, b in found) for found in inside),
        *(tuple((a * outputs, b * outputs) for a, b in found) for found in cuts(op.groups, cores)),
    ]
