"""Whether tiles fit the cores' buffers.

In: the grids of a layer, and a machine's buffers. Out: those that fit, or a refusal that names the
layer, the bytes, the limit and the smallest grid that fits. A core's input lies in one buffer and
what it adds up in another. Weights stream through the input's: two output channels of them, one in
use and one that comes next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import PartitionError
from tilewright.partition.core_model import CoreModel
from tilewright.partition.layers import Layer
from tilewright.partition.strategies import find_strategy
from tilewright.partition.volumes import Options, options

_MOST_CORES = 4096
"""The largest grid that a refusal looks for."""
_TOGETHER = 32
"""Grids that it looks at together."""


def fitting(layer: Layer, table: Options, model: CoreModel) -> NDArray[np.bool_]:
    """Which grids of the table fit. Raises PartitionError where none does."""
    found: NDArray[np.bool_] = table.buffers <= model.buffer_values
    if not found.any():
        least = int(table.buffers.argmin())
        taken = int(table.buffers[least]) * model.value_bytes
        raise PartitionError(
            f"layer {layer.name}: a core's part of a {table.grids[least].describe()} grid takes "
            f"{taken} bytes, a buffer has {model.buffer_values * model.value_bytes}",
            fix=_way_out(layer, model),
        )
    return found


def _way_out(layer: Layer, model: CoreModel) -> str:
    strategies = ("tiles", "output_channels", "terms")
    every = [g for name in strategies for g in find_strategy(name).grids(layer, _MOST_CORES)]
    every.sort(key=lambda grid: grid.cells)
    for first in range(0, len(every), _TOGETHER):
        grids = every[first : first + _TOGETHER]
        table = options(layer, grids, grids[-1].cells)
        fits = table.buffers <= model.buffer_values
        if fits.any():
            grid = grids[int(fits.argmax())]
            return f"the smallest grid that fits is {grid.describe()}: {grid.cells} cores"
    return f"no grid of up to {_MOST_CORES} cores fits: give the cores larger buffers"
