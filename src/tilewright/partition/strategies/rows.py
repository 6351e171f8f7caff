"""Rows of the result over the cores."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.partition.cuts import ROWS, along, result_cuts, undivided
from tilewright.partition.division import Grid
from tilewright.partition.layers import Layer


class Rows:
    """The halo is what neighbours above and below have."""

    name = "rows"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """A tile for each core."""
        if len(layer.shape) > ROWS:
            for found in result_cuts(layer, ROWS, cores):
                yield along(undivided(layer), ROWS, found)


STRATEGY = Rows()
