"""Where extents may be cut: what strategies combine to grids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.ops import Conv2d
from tilewright.ops.box import Box
from tilewright.partition.division import Cut, Grid, cut
from tilewright.partition.layers import Layer

BATCH, CHANNELS, ROWS, COLUMNS = range(4)
"""Dimensions of images; matrices have the first two."""
IMAGES = 4


def undivided(layer: Layer) -> Grid:
    """One cell: all of the layer."""
    return Grid(tuple(cut(extent, extent) for extent in layer.shape))


def along(grid: Grid, dimension: int, found: Cut) -> Grid:
    """The grid with another cut of one dimension of the result."""
    return replace(grid, result=(*grid.result[:dimension], found, *grid.result[dimension + 1 :]))


def is_independent(layer: Layer, grid: Grid) -> bool:
    """Whether each cell is computed without computing some of another one, too."""
    cell = layer.regions(Box.of(*(cuts[0] for cuts in grid.result)))[0]
    return layer.op.computable(cell) == cell


def vector_grid(layer: Layer, cores: int) -> Grid:
    """The channels in equal parts, or the elements of what has one dimension; undivided where a
    cell would compute some of another one.
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


def pixel_cuts(extent: int, cores: int) -> list[Cut]:
    """The same with tiles of even sizes beside the odd ones: 2 x 2 pooling straddles none."""
    sizes = {-(-extent // parts) for parts in range(1, min(cores, extent) + 1)}
    sizes |= {min(extent, size + size % 2) for size in sizes}
    return [cut(extent, size) for size in sorted(sizes)]


def result_cuts(layer: Layer, dimension: int, cores: int) -> list[Cut]:
    """The ways to cut one dimension of the result."""
    if dimension == CHANNELS:
        return channel_cuts(layer, cores)
    cuts = pixel_cuts if dimension in (ROWS, COLUMNS) else equal_cuts
    return cuts(layer.shape[dimension], cores)


def channel_cuts(layer: Layer, cores: int) -> list[Cut]:
    """Cuts of the channels; of a convolution in groups inside each of them, or between them."""
    op = layer.op
    if not isinstance(op, Conv2d) or op.groups == 1:
        return equal_cuts(layer.shape[CHANNELS], cores)
    outputs = op.out_channels // op.groups
    starts = range(0, op.out_channels, outputs)
    inside = [found for found in equal_cuts(outputs, cores // op.groups) if len(found) > 1]
    return [
        *(tuple((s + a, s + b) for s in starts for a, b in found) for found in inside),
        *(
            tuple((a * outputs, b * outputs) for a, b in found)
            for found in equal_cuts(op.groups, cores)
        ),
    ]


def term_cuts(layer: Layer, cores: int) -> Iterator[tuple[Cut, ...]]:
    """Cuts of the sums over input channels; where a kernel sees a whole image at once, over its
    rows and columns, too. None of them leaves the sums whole.
    """
    if not layer.op.terms:
        return
    first, *kernel = layer.op.terms
    sees_all = bool(kernel) and layer.op.out_shape[ROWS:] == (1, 1)
    others = [pixel_cuts(e, cores) if sees_all else [cut(e, e)] for e in kernel]
    for channels in equal_cuts(first, cores):
        found: list[tuple[Cut, ...]] = [(channels,)]
        for options in others:
            found = [
                (*cuts, more)
                for cuts in found
                for more in options
                if _cells((*cuts, more)) <= cores
            ]
        yield from (cuts for cuts in found if _cells(cuts) > 1)


def _cells(cuts: tuple[Cut, ...]) -> int:
    return Grid(cuts).cells
