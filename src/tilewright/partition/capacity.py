"""Whether tiles fit the cores' buffers.

In: a plan, and the bytes of one buffer. Out: nothing, or a refusal that names the layer, the bytes,
the limit and the smallest grid that fits. A core's input and its output each lie in a buffer of
their own; weights stream through, and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import PartitionError
from tilewright.machine import Machine
from tilewright.partition.division import Grid
from tilewright.partition.layers import Layer
from tilewright.partition.plan import Plan
from tilewright.partition.strategies import find_strategy
from tilewright.partition.volumes import Integers, Options, options, sizes

_MOST_CORES = 4096
"""The largest grid that a refusal looks for."""


def buffer_values(machine: Machine, element: str) -> int:
    """Values of the type `element` that one buffer of a core holds."""
    space = machine.space("buffers")
    return space.available_bytes // space.banks // dtype(element).size_bytes


def largest(table: Options) -> Integers:
    """For each grid the most values that a core has in a buffer: all it reads, or all it keeps."""
    read = sum(sizes(boxes) for _, boxes in table.needs)
    found: Integers = np.maximum(read, sizes(table.kept)).max(1)
    return found


def check_fits(plan: Plan, values: int, element: str) -> None:
    """Raise PartitionError where a core's part of a layer has more than `values` values."""
    size = dtype(element).size_bytes
    for planned in plan.layers:
        grid = planned.division.grid
        found = int(largest(options(planned.layer, [grid], plan.cores))[0])
        if found > values:
            raise PartitionError(
                f"layer {planned.layer.name}: a core's part of a {grid.describe()} grid takes "
                f"{found * size} bytes, a buffer has {values * size}",
                fix=_way_out(planned.layer, values),
            )


def _way_out(layer: Layer, values: int) -> str:
    for grid in _by_cells(layer):
        if largest(options(layer, [grid], grid.cells))[0] <= values:
            return f"the smallest grid that fits is {grid.describe()}: {grid.cells} cores"
    return f"no grid of up to {_MOST_CORES} cores fits: give the cores larger buffers"


def _by_cells(layer: Layer) -> Iterator[Grid]:
    strategies = ("tiles", "output_channels")
    every = [g for name in strategies for g in find_strategy(name).grids(layer, _MOST_CORES)]
    yield from sorted(every, key=lambda grid: grid.cells)
