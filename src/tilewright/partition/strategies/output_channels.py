"""Output channels over the cores."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.partition.cuts import CHANNELS, along, result_cuts, undivided
from tilewright.partition.division import Grid
from tilewright.partition.layers import Layer


class OutputChannels:
    """Each core has the weights of its channels, and reads all inputs."""

    name = "output_channels"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """A tile for each core."""
        if len(layer.shape) > CHANNELS:
            for found in result_cuts(layer, CHANNELS, cores):
                yield along(undivided(layer), CHANNELS, found)


STRATEGY = OutputChannels()
