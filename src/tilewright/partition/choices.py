"""The grids that a plan chooses from: those that spread a layer's work evenly enough.

In: a layer, strategies, and how much of the work one core may have. Out: grids with the strategy
of each, and the limit. A limit refers to the busiest core under the BWDSP paper's strategy,
or to the most even grid of the given strategies where those cannot be as even: without one the
least is moved where one core does everything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.partition.grids import Grid, Grids, joined, vector_grid
from tilewright.partition.layers import Layer
from tilewright.partition.strategies import find_strategy
from tilewright.partition.volumes import grid_options

REFERENCE = "output_tiles"
"""The strategy whose busiest core the limit on work refers to: that of the BWDSP paper."""
PLANNED = ("products", REFERENCE)
"""The strategies that the planner chooses from where values count that go to one core each."""
EQUAL = ("equal_products", REFERENCE)
"""The strategies that it chooses from elsewhere, where a pair of grids takes longer to price."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Choices:
    """Grids, the strategy that each is of, and the part of the layer's work that one core may
    have.
    """

    grids: Grids
    strategies: tuple[str, ...]
    origin: NDArray[np.intp]
    limit: float

    def strategy(self, number: int) -> str:
        """The strategy of one grid."""
        return self.strategies[int(self.origin[number])]

    def where(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Choices:
        """The choices restricted to some of the grids."""
        return replace(self, grids=self.grids[which], origin=self.origin[which])

    def beside(self, grids: Grids, strategy: str) -> Choices:
        """The choices with further grids of another `strategy`, each grid once."""
        every, origin = joined([self.grids, grids])
        own = np.append(self.origin, np.full((origin == 1).sum(), len(self.strategies)))
        return replace(self, grids=every, strategies=(*self.strategies, strategy), origin=own)


def given(layer: Layer, strategy: str, grid: Grid) -> Choices:
    """One grid, with any work."""
    return Choices(Grids.of(layer, [grid]), (strategy,), np.zeros(1, np.intp), math.inf)


def choices_of(
    layer: Layer, cores: int, strategies: Sequence[str], most_work: float | None
) -> Choices:
    """The grids of a layer whose largest cell is at most `most_work` of what the limit refers to.
    Where no strategy divides the layer it has its channels in equal parts, or all on one core.
    """
    grids, origin = joined([find_strategy(name).grids(layer, cores) for name in strategies])
    found = Choices(grids, tuple(strategies), origin, math.inf)
    if "whole" not in strategies and (grids.cells == 1).all():
        grid = vector_grid(layer, cores)
        if grid.cells > 1 or not len(grids):
            found = given(layer, "output_channels" if grid.cells > 1 else "whole", grid)
    if most_work is None:
        return found
    most = reference_work(layer, cores)
    if REFERENCE not in strategies:
        most = max(most, float(grid_options(layer, found.grids, cores).work.min()))
    limit = most_work * most + _ROUNDING
    kept = _least_work(layer, found.grids) <= limit
    return replace(found.where(kept), limit=limit)


def reference_work(layer: Layer, cores: int) -> float:
    """The part of a layer's work that the busiest core has under the BWDSP paper's strategy."""
    return float(grid_options(layer, find_strategy(REFERENCE).grids(layer, cores), cores).work[0])


def _least_work(layer: Layer, grids: Grids) -> NDArray[np.float64]:
    """The largest cell of each grid as a part of all, whatever more it has to compute."""
    extents = np.array((*layer.shape, *layer.op.terms), np.float64)
    found: NDArray[np.float64] = (grids.longest / extents).prod(axis=1)
    return found
