"""Where extents may be cut: strategies combine these to grids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilewright.ops.box import Box
from tilewright.partition.grids import Cut, Grid, balanced, cut
from tilewright.partition.layers import Layer

BATCH, CHANNELS, ROWS, COLUMNS = range(4)
"""Dimensions of images; matrices have the first two."""
IMAGES = 4
Cuts = Callable[[int, int], list[Cut]]
"""The ways to cut an extent over a number of cores."""


def undivided(layer: Layer) -> Grid:
    """One cell: all of the layer."""
    return Grid(tuple(cut(extent, extent) for extent in layer.shape))


def along(grid: Grid, dimension: int, found: Cut) -> Grid:
    """The grid with another cut of one dimension of the result."""
    return replace(grid, result=(*grid.result[:dimension], found, *grid.result[dimension + 1 :]))


def is_independent(layer: Layer, grid: Grid) -> bool:
    """True if each cell can be computed without computing part of another one."""
    cell = layer.regions(Box.of(*(cuts[0] for cuts in grid.result)))[0]
    return layer.op.computable(cell) == cell


def vector_grid(layer: Layer, cores: int) -> Grid:
    """The channels in equal parts, or the elements of a result with one dimension; undivided where
    a cell would compute some of another one.
    """
    grid = undivided(layer)
    if not layer.shape:
        return grid
    dimension = min(CHANNELS, len(layer.shape) - 1)
    extent = layer.shape[dimension]
    divided = along(grid, dimension, cut(extent, -(-extent // cores)))
    return divided if is_independent(layer, divided) else grid


def equal_cuts(extent: int, cores: int) -> list[Cut]:
    """Tiles of one size, the last one smaller: for each number of cores up to `cores` the smallest
    that cover the extent; the smallest tiles first.
    """
    sizes = {-(-extent // parts) for parts in range(1, min(cores, extent) + 1)}
    return [cut(extent, size) for size in sorted(sizes)]


def even_cuts(extent: int, cores: int) -> list[Cut]:
    """Tiles of one size, and of the next even one: 2 x 2 pooling straddles none of those."""
    sizes = {-(-extent // parts) for parts in range(1, min(cores, extent) + 1)}
    sizes |= {min(extent, size + size % 2) for size in sizes}
    return [cut(extent, size) for size in sorted(sizes)]


def with_balanced(cuts: Cuts) -> Cuts:
    """Cuts, and behind each that whose last tile is smaller as many tiles as equal as can be."""

    def found(extent: int, cores: int) -> list[Cut]:
        both = ((own, balanced(extent, len(own))) for own in cuts(extent, cores))
        return list(dict.fromkeys(one for pair in both for one in pair))

    return found


def channel_cuts(layer: Layer, cuts: Cuts, cores: int) -> list[Cut]:
    """Cuts of the channels; of a convolution in groups inside each of them, or between them."""
    op = layer.op.convolution
    if op is None or op.groups == 1:
        return cuts(layer.shape[CHANNELS], cores)
    outputs = op.out_channels // op.groups
    starts = range(0, op.out_channels, outputs)
    inside = [found for found in cuts(outputs, cores // op.groups) if len(found) > 1]
    return [
        *(tuple((s + a, s + b) for s in starts for a, b in found) for found in inside),
        *(tuple((a * outputs, b * outputs) for a, b in found) for found in cuts(op.groups, cores)),
    ]
