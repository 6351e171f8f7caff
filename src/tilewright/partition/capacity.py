"""Grids whose tiles fit the cores' buffers.

In: the grids of a layer, and a machine's buffers. Out: those that fit, or a refusal that names the
layer, the bytes, the limit and the smallest grid that fits. A core's input lies in one buffer and
what it adds up in another. Weights stream through the input's: two output channels of them, one in
use and one that comes next.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import PartitionError
from tilewright.partition.core_model import CoreModel
from tilewright.partition.grids import Grid, Grids
from tilewright.partition.layers import Layer
from tilewright.partition.strategies import find_strategy
from tilewright.partition.volumes import Options, options

_SEARCHED = (256, 1024, 4096)
"""Up to how many cores a refusal looks for a grid that fits, one after the other."""
_TOGETHER = 32
"""Grids that it looks at together."""


def fitting(layer: Layer, table: Options, model: CoreModel, other_grids: str) -> NDArray[np.bool_]:
    """Mask of the table's grids that fit. Raises PartitionError if none does, and tells how to get
    `other_grids` if some that are not in the table would.
    """
    found: NDArray[np.bool_] = table.buffers <= model.buffer_values
    if not found.any():
        least = int(table.buffers.argmin())
        taken = int(table.buffers[least]) * model.value_bytes
        grid = table.grids.grid(least).describe()
        raise PartitionError(
            f"layer {layer.name}: a core's part of a {grid} grid takes {taken} bytes, a buffer has "
            f"{model.buffer_values * model.value_bytes}",
            fix=_way_out(layer, model, table.kept.shape[1], other_grids),
        )
    return found


def _way_out(layer: Layer, model: CoreModel, machine_cores: int, other_grids: str) -> str:
    for cores in _SEARCHED:
        grid = _smallest(layer, model, cores)
        if grid is not None:
            found = f"the smallest grid that fits is {grid.describe()}: {_cores(grid.cells)}"
            if grid.cells > machine_cores:
                return found
            return f"{found}; {other_grids}"
    return f"no grid of up to {_SEARCHED[-1]} cores fits: give the cores larger buffers"


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def _smallest(layer: Layer, model: CoreModel, cores: int) -> Grid | None:
    """The grid of fewest cells that fits, of at most `cores`: first by one cell of each grid, which
    rules out most of them, then by all cells.
    """
    every = find_strategy("equal_products").grids(layer, cores)
    every = every[np.argsort(every.cells, kind="stable")]
    alone = options(layer, _middles(every), 1)
    likely = every[alone.buffers <= model.buffer_values]
    for first in range(0, len(likely), _TOGETHER):
        grids = likely[slice(first, first + _TOGETHER)]
        fits = options(layer, grids, int(grids.cells.max())).buffers <= model.buffer_values
        if fits.any():
            return grids.grid(int(fits.argmax()))
    return None


def _middles(grids: Grids) -> Grids:
    """One cell of each grid, away from the borders where it has such."""
    cuts = tuple(tuple((c[len(c) // 2],) for c in own) for own in grids.cuts)
    return replace(grids, cuts=cuts)
