"""Grids whose cells overlap: cores compute the halos that their next layer reads.

In: layers and their grids. Out: the grids, and beside those of each layer that one convolution or
pooling reads the grids that give every core all that it reads there. Nothing is exchanged between
the two then; instead halos are computed more than once, and the layer itself reads more. Layers one
after the other may all be of that kind, the first with the widest halo: the tile pyramids of
fused-layer accelerators (Alwani et al. 2016).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tilewright.ops import Conv2d, Pool2d
from tilewright.ops.box import Box
from tilewright.partition.cuts import COLUMNS, IMAGES, ROWS, undivided
from tilewright.partition.division import Cut, Grid
from tilewright.partition.layers import Layer

Named = tuple[str, Grid]
"""A grid, and the strategy that gave it."""
RECOMPUTED = "recomputed"


def with_recomputed(
    layers: Sequence[Layer], choices: Sequence[list[Named]], cores: int
) -> list[list[Named]]:
    """The choices of each layer, those of what it is read by derived first."""
    found = list(choices)
    readers = Counter(name for layer in layers for name in layer.reads)
    at = {layer.output: number for number, layer in enumerate(layers)}
    for number in reversed(range(len(layers))):
        layer = layers[number]
        name = layer.reads[0] if len(layer.reads) == 1 else ""
        if name not in at or readers[name] > 1 or not isinstance(layer.op, Conv2d | Pool2d):
            continue
        source = at[name]
        present = {grid for _, grid in found[source]}
        grown = dict.fromkeys(_grown(layer, layers[source], [grid for _, grid in found[number]]))
        new = [(RECOMPUTED, grid) for grid in grown if grid not in present and grid.cells <= cores]
        found[source] = [*found[source], *new]
    return found


def _grown(layer: Layer, before: Layer, grids: Sequence[Grid]) -> Iterator[Grid]:
    """What cores read of the layer before, for grids over rows and columns alone."""
    if len(before.shape) != IMAGES or len(layer.shape) != IMAGES:
        return
    for grid in grids:
        if grid.cells > 1 and grid.cells == len(grid.result[ROWS]) * len(grid.result[COLUMNS]):
            rows, columns = (_read(layer, grid, dimension) for dimension in (ROWS, COLUMNS))
            whole = undivided(before).result
            if _covers(rows, before.shape[ROWS]) and _covers(columns, before.shape[COLUMNS]):
                yield Grid((*whole[:ROWS], rows, columns))


def _read(layer: Layer, grid: Grid, dimension: int) -> Cut:
    """What each interval of the result reads along the same dimension of the input."""
    whole = Box.whole(layer.shape)
    found = []
    for side in grid.result[dimension]:
        ((_, box),) = layer.needed(layer.regions(whole.along(dimension, side))[0], None)
        found.append(box.sides[dimension])
    return tuple(found)


def _covers(cuts: Cut, extent: int) -> bool:
    """Whether intervals begin one behind the other and leave nothing out."""
    starts = [start for start, _ in cuts]
    gaps = any(b[0] > a[1] for a, b in pairwise(cuts))
    increasing = starts == sorted(set(starts))
    return increasing and not gaps and cuts[0][0] == 0 and max(c[1] for c in cuts) == extent
