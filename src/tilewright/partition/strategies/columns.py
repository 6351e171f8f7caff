"""Columns of the result over the cores."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.partition.cuts import COLUMNS, along, result_cuts, undivided
from tilewright.partition.division import Grid
from tilewright.partition.layers import Layer


class Columns:
    """The halo is what neighbours to the left and right have."""

    name = "columns"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """A tile for each core."""
        if len(layer.shape) > COLUMNS:
            for found in result_cuts(layer, COLUMNS, cores):
                yield along(undivided(layer), COLUMNS, found)


STRATEGY = Columns()
