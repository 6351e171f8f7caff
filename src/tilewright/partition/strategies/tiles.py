"""Rows and columns of the result over a grid of cores."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.partition.cuts import COLUMNS, IMAGES, ROWS, along, pixel_cuts, undivided
from tilewright.partition.division import Grid
from tilewright.partition.layers import Layer


class Tiles:
    """The halo is what up to eight neighbours have."""

    name = "tiles"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """A tile for each core."""
        if len(layer.shape) != IMAGES:
            return
        for rows in pixel_cuts(layer.shape[ROWS], cores):
            for columns in pixel_cuts(layer.shape[COLUMNS], cores // len(rows)):
                grid = along(along(undivided(layer), ROWS, rows), COLUMNS, columns)
                if grid.cells <= cores:
                    yield grid


STRATEGY = Tiles()
