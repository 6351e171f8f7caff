"""One core computes the whole layer."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.partition.cuts import undivided
from tilewright.partition.division import Grid
from tilewright.partition.layers import Layer


class Whole:
    """No other core has anything to do."""

    name = "whole"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """One cell."""
        yield undivided(layer)


STRATEGY = Whole()
