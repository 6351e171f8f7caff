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
from functools import cache, partial
from itertools import pairwise

from tilewright.ops.box import Box
from tilewright.partition.choices import Choices
from tilewright.partition.grids import COLUMNS, IMAGES, ROWS, Cut, Grid, Grids, undivided
from tilewright.partition.layers import Layer

RECOMPUTED = "recomputed"


def with_recomputed(
    layers: Sequence[Layer], choices: Sequence[Choices], cores: int
) -> list[Choices]:
    """The choices of each layer, those of the layer that reads it first."""
    found = list(choices)
    readers = Counter(name for layer in layers for name in layer.reads)
    at = {layer.output: number for number, layer in enumerate(layers)}
    grown: dict[tuple[int, int], Choices] = {}
    for number in reversed(range(len(layers))):
        layer = layers[number]
        name = layer.reads[0] if len(layer.reads) == 1 else ""
        windows = layer.op.convolution or layer.op.pooling
        if name not in at or readers[name] > 1 or windows is None:
            continue
        source = at[name]
        both = id(found[number]), id(found[source])
        if both not in grown:
            more = list(dict.fromkeys(_grown(layer, layers[source], found[number].grids, cores)))
            more_grids = Grids.of(layers[source], more)
            grown[both] = found[source].beside(more_grids, RECOMPUTED) if more else found[source]
        found[source] = grown[both]
    return found


def _grown(layer: Layer, before: Layer, grids: Grids, cores: int) -> Iterator[Grid]:
    """Grids of the layer before, of at most `cores` cells, that hold what cores read of it under
    those of `grids` that divide rows and columns alone.
    """
    if len(before.shape) != IMAGES or len(layer.shape) != IMAGES:
        return
    read = cache(partial(_read, layer))
    whole, counts = undivided(before).result, grids.counts
    for grid in grids[(grids.cells > 1) & (grids.cells == counts[:, ROWS] * counts[:, COLUMNS])]:
        rows, columns = (read(d, grid.result[d]) for d in (ROWS, COLUMNS))
        if _covers(rows, before.shape[ROWS]) and _covers(columns, before.shape[COLUMNS]):
            found = Grid((*whole[:ROWS], rows, columns), (), grid.turned)
            if found.cells <= cores:
                yield found


def _read(layer: Layer, dimension: int, cuts: Cut) -> Cut:
    """The interval of the input that each interval of the result reads along `dimension`."""
    whole = Box.whole(layer.shape)
    found = []
    for side in cuts:
        ((_, box),) = layer.needed(layer.regions(whole.along(dimension, side))[0], None)
        found.append(box.sides[dimension])
    return tuple(found)


def _covers(cuts: Cut, extent: int) -> bool:
    """True if the intervals start in increasing order and cover `extent` without a gap."""
    starts = [start for start, _ in cuts]
    gaps = any(b[0] > a[1] for a, b in pairwise(cuts))
    increasing = starts == sorted(set(starts))
    return increasing and not gaps and cuts[0][0] == 0 and max(c[1] for c in cuts) == extent
