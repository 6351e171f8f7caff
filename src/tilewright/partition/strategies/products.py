"""Every product of the other strategies: batch, channels, rows, columns and terms at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.partition.cuts import result_cuts, term_cuts
from tilewright.partition.division import Cut, Grid
from tilewright.partition.layers import Layer


class Products:
    """The space that the planner searches."""

    name = "products"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """Grids of all dimensions with a core for each cell."""
        for grid in _results(layer, (), cores):
            yield grid
            for terms in term_cuts(layer, cores // grid.cells):
                yield replace(grid, terms=terms)


def _results(layer: Layer, cuts: tuple[Cut, ...], cores: int) -> Iterator[Grid]:
    """Grids that begin with `cuts`, of at most `cores` cells in the other dimensions."""
    if len(cuts) == len(layer.shape):
        yield Grid(cuts)
        return
    for found in result_cuts(layer, len(cuts), cores):
        if len(found) <= cores:
            yield from _results(layer, (*cuts, found), cores // len(found))


STRATEGY = Products()
