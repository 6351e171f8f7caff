"""The block distribution of the CNS-1 (ICSI TR-93-046, section 3.2.1): outputs and terms.

A matrix lies in blocks over p_h x p_i nodes: p_h parts of the outputs, and p_i parts of what they
are summed over, with p_h >= p_i. The p_i nodes of one part of the outputs put their sums together,
the p_h nodes of one part of the terms read the same inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.partition.cuts import CHANNELS, along, channel_cuts, equal_cuts, undivided
from tilewright.partition.division import Cut, Grid, cut
from tilewright.partition.layers import Layer


class Blocks:
    """Every node has one block of the weights, and no weight has a second copy."""

    name = "blocks"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """Grids of as many blocks as there are cores, the squarest first."""
        if not layer.op.terms or len(layer.shape) <= CHANNELS:
            return
        first, *kernel = layer.op.terms
        whole = tuple(cut(extent, extent) for extent in kernel)
        for parts in range(cores, 0, -1):
            if cores % parts or parts * parts > cores:
                continue
            outputs = _cut_in(channel_cuts(layer, cores), cores // parts)
            terms = _cut_in(equal_cuts(first, cores), parts)
            if outputs and terms:
                grid = along(undivided(layer), CHANNELS, outputs)
                yield grid if parts == 1 else replace(grid, terms=(terms, *whole))


def _cut_in(cuts: list[Cut], parts: int) -> Cut | None:
    """The cut with so many parts, if there is one."""
    return next((found for found in cuts if len(found) == parts), None)


STRATEGY = Blocks()
