"""Images of a batch over the cores."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.partition.cuts import BATCH, along, result_cuts, undivided
from tilewright.partition.division import Grid
from tilewright.partition.layers import Layer


class Batch:
    """Each core has whole images."""

    name = "batch"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """A tile for each core."""
        if len(layer.shape) > BATCH:
            for found in result_cuts(layer, BATCH, cores):
                yield along(undivided(layer), BATCH, found)


STRATEGY = Batch()
