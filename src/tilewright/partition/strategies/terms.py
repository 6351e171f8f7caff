"""Terms of the sums over the cores: input channels of a convolution, k of a product.

The cores of one region add up what each of them has, and keep an equal part of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.partition.cuts import term_cuts, undivided
from tilewright.partition.division import Grid
from tilewright.partition.layers import Layer


class Terms:
    """No weight has a second copy, no input either; partial sums are exchanged."""

    name = "terms"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """Parts of the sums of the whole result."""
        for terms in term_cuts(layer, cores):
            yield replace(undivided(layer), terms=terms)


STRATEGY = Terms()
