"""What a plan chooses from: the grids of a layer that spread its work evenly enough.

In: a layer, strategies, and how much of the work one core may have. Out: grids with the strategy
that gave each, and the limit. A limit refers to the busiest core under the BWDSP paper's strategy,
or to the most even grid of the given strategies where those cannot be as even: without one the
least is moved where one core does everything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.partition.cuts import vector_grid
from tilewright.partition.division import Grid
from tilewright.partition.layers import Layer
from tilewright.partition.recomputed import Named
from tilewright.partition.strategies import find_strategy
from tilewright.partition.volumes import options

REFERENCE = "output_tiles"
"""The strategy whose busiest core the limit on work refers to: that of the BWDSP paper."""
PLANNED = ("products", REFERENCE)
"""The strategies that the planner chooses from."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Choices:
    """Grids, and the part of the layer's work that one core may have."""

    grids: list[Named]
    limit: float


def choices_of(
    layer: Layer, cores: int, strategies: Sequence[str], most_work: float | None
) -> Choices:
    """The grids of a layer whose largest cell is at most `most_work` of what the limit refers to.
    Where no strategy divides the layer it has its channels in equal parts, or all on one core.
    """
    found: dict[Grid, str] = {}
    for name in strategies:
        for grid in find_strategy(name).grids(layer, cores):
            found.setdefault(grid, name)
    if "whole" not in strategies and all(grid.cells == 1 for grid in found):
        grid = vector_grid(layer, cores)
        if grid.cells > 1 or not found:
            found = {grid: "output_channels" if grid.cells > 1 else "whole"}
    if most_work is None:
        return Choices([(name, grid) for grid, name in found.items()], math.inf)
    most = reference_work(layer, cores)
    if REFERENCE not in strategies:
        most = max(most, float(options(layer, list(found), cores).work.min()))
    limit = most_work * most + _ROUNDING
    kept = [(name, grid) for grid, name in found.items() if _least_work(layer, grid) <= limit]
    return Choices(kept, limit)


def reference_work(layer: Layer, cores: int) -> float:
    """The part of a layer's work that the busiest core has under the BWDSP paper's strategy."""
    return float(options(layer, list(find_strategy(REFERENCE).grids(layer, cores)), cores).work[0])


def _least_work(layer: Layer, grid: Grid) -> float:
    """The largest cell as a part of all, whatever more it has to compute."""
    extents = (*layer.shape, *(layer.op.terms if grid.terms else ()))
    cuts = (*grid.result, *grid.terms)
    longest = (max(b - a for a, b in cut) / n for cut, n in zip(cuts, extents, strict=True))
    return math.prod(longest)
