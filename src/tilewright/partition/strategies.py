"""Strategies: ways to divide a layer over cores, one row of a table each, and the choice of their
grids that spread a layer's work evenly enough.

In: a layer and a number of cores. Out: `Grids` of at most that many cells, smallest tiles first;
empty where a strategy does not apply to the layer. Most strategies combine cuts of some axes in
every way; those of papers are rules for one grid. The work of one core is limited relative to the
busiest core under the BWDSP paper's strategy, or under the most even grid of the given strategies
if none is as even. Without a limit, a plan that moves the least has one core do everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.common.errors import PartitionError
from tilewright.partition.grids import (
    BATCH,
    CHANNELS,
    COLUMNS,
    IMAGES,
    ROWS,
    Cut,
    Cuts,
    Grid,
    Grids,
    along,
    channel_cuts,
    cut,
    equal_cuts,
    even_cuts,
    joined,
    undivided,
    vector_grid,
    with_balanced,
)
from tilewright.partition.layers import Layer
from tilewright.partition.volumes import grid_options


@dataclass(frozen=True)
class Strategy:
    """One way to divide layers, by its name in tables and plans."""

    name: str
    grids: Callable[[Layer, int], Grids]


@dataclass(frozen=True)
class AllCuts:
    """Every combination of cuts along some `dimensions` of the result (None: all), and with `sums`
    also of its terms. Unless `equal`, cuts into balanced tiles are added to cuts into tiles of one
    size, and cells are numbered both ways.
    """

    dimensions: tuple[int, ...] | None = None
    sums: bool = False
    equal: bool = False

    def __call__(self, layer: Layer, cores: int) -> Grids:
        """The grids of `layer` with at most `cores` cells."""
        rank = len(layer.shape)
        wanted = range(rank) if self.dimensions is None else self.dimensions
        if any(dimension >= rank for dimension in wanted):
            return Grids.of(layer, [])
        result = [
            self._result_cuts(layer, d, cores) if d in wanted else [cut(e, e)]
            for d, e in enumerate(layer.shape)
        ]
        terms = self._term_cuts(layer, cores)
        found = Grids.products(rank, [*result, *terms], cores, turned=not self.equal)
        return found[found.parts > 1] if self.sums and not wanted else found

    def _cuts(self, cuts: Cuts) -> Cuts:
        return cuts if self.equal else with_balanced(cuts)

    def _result_cuts(self, layer: Layer, dimension: int, cores: int) -> list[Cut]:
        if dimension == CHANNELS:
            return channel_cuts(layer, self._cuts(equal_cuts), cores)
        cuts = even_cuts if dimension in (ROWS, COLUMNS) else equal_cuts
        return self._cuts(cuts)(layer.shape[dimension], cores)

    def _term_cuts(self, layer: Layer, cores: int) -> list[list[Cut]]:
        """Cuts of each axis of the terms. Input channels are cut; the kernel's rows and columns
        only where the kernel covers the whole image.
        """
        whole = [[cut(extent, extent)] for extent in layer.op.terms]
        if not whole or not self.sums:
            return whole
        sees_all = len(whole) > 1 and layer.op.out_shape[ROWS:] == (1, 1)
        first, *kernel = layer.op.terms
        others = [self._cuts(even_cuts)(e, cores) for e in kernel] if sees_all else whole[1:]
        return [self._cuts(equal_cuts)(first, cores), *others]


def input_rows(height: int, cores: int) -> int:
    """AVG_H, the rows of one core in the data-parallel baseline of the BWDSP paper (Eq. 3), which
    cuts the input's rows into equal parts.

    >>> [input_rows(height, 56) for height in (224, 112, 56, 28, 14)]
    [4, 2, 1, 1, 1]
    """
    return -(-height // cores)


def output_tile(height: int, width: int, cores: int) -> tuple[int, int]:
    """Rows and columns of one core's tile of a `height` x `width` result under the output-driven
    strategy of the BWDSP paper (Eqs. 4 and 5), whose tiles pooling windows do not straddle.

    With at least 2 N rows for N cores, a tile is whole rows (Eq. 4). With fewer, it is two rows,
    just wide enough that there is a core for every tile, rounded up to an even width (Eq. 5, with
    the rounding of Table 4). Where this yields more tiles than cores, a case that the paper leaves
    open, tiles grow by two columns.

    >>> [output_tile(size, size, 56) for size in (224, 112, 56, 28, 14)]
    [(4, 224), (2, 112), (2, 28), (2, 8), (2, 2)]
    """
    if height >= 2 * cores:
        return -(-height // cores), width
    columns = 2 * -(-height * width // (4 * cores))
    while -(-height // 2) * -(-width // columns) > cores and columns < width:
        columns += 2
    rows = 2 if -(-height // 2) * -(-width // columns) <= cores else -(-height // cores)
    return rows, min(columns, width)


def _input_rows(layer: Layer, cores: int) -> Iterator[Grid]:
    """Rows as the input's are divided, regardless of the next layer. Vectors, which have no rows,
    are cut along their elements. If padding makes the result higher than the input, the result's
    height decides.
    """
    if len(layer.shape) != IMAGES or layer.shape[ROWS] == 1:
        yield vector_grid(layer, cores)
        return
    height = layer.shape[ROWS]
    if (conv := layer.op.convolution) is not None:
        height = max(height, conv.height)
    rows = cut(layer.shape[ROWS], input_rows(height, cores))
    yield along(undivided(layer), ROWS, rows)


def _output_tiles(layer: Layer, cores: int) -> Iterator[Grid]:
    """Tiles of the output-driven strategy. A pooling layer follows the tiles of its input, so it
    needs no exchange with the convolution before it.
    """
    if len(layer.shape) != IMAGES or layer.shape[ROWS:] == (1, 1):
        yield vector_grid(layer, cores)
        return
    pool = layer.op.pooling
    stride = pool.stride if pool is not None else (1, 1)
    size = pool.input_shapes[0] if pool is not None else layer.shape
    rows, columns = output_tile(size[ROWS], size[COLUMNS], cores)
    found = _tiled(layer, (-(-rows // stride[0]), -(-columns // stride[1])))
    if found.cells > cores:  # padding makes the pool's result larger than its input
        found = _tiled(layer, output_tile(layer.shape[ROWS], layer.shape[COLUMNS], cores))
    yield found


def _tiled(layer: Layer, tile: tuple[int, int]) -> Grid:
    """The grid that cuts rows and columns into tiles of one size."""
    rows = along(undivided(layer), ROWS, cut(layer.shape[ROWS], tile[0]))
    return along(rows, COLUMNS, cut(layer.shape[COLUMNS], tile[1]))


def _blocks(layer: Layer, cores: int) -> Iterator[Grid]:
    """The block distribution of the CNS-1 (ICSI TR-93-046, section 3.2.1): a matrix is cut into
    blocks over all nodes, p_h parts of the outputs times p_i parts of their sums' terms, with
    p_h >= p_i. The p_i nodes of one part of the outputs combine their sums; the p_h nodes of one
    part of the terms read the same inputs. The squarest grid comes first. Grids with more parts of
    the terms, like the report's second matrix, and grids over fewer nodes come last. Cells are
    numbered both ways.
    """
    if not layer.op.terms or len(layer.shape) <= CHANNELS:
        return
    channels = channel_cuts(layer, _divisor_cuts, cores)
    terms = _divisor_cuts(layer.op.terms[0], cores)
    divisors = [n for n in range(cores, 0, -1) if cores % n == 0]
    squarest = [(cores, parts) for parts in divisors if parts * parts <= cores]
    others = [(n, parts) for n in divisors for parts in divisors if n % parts == 0]
    for nodes, parts in dict.fromkeys([*squarest, *others]):
        outputs, sums = _cut_in(channels, nodes // parts), _cut_in(terms, parts)
        if outputs and sums:
            grid = along(undivided(layer), CHANNELS, outputs)
            whole = tuple(cut(extent, extent) for extent in layer.op.terms[1:])
            yield (grid := grid if parts == 1 else replace(grid, terms=(sums, *whole)))
            if parts > 1 and len(outputs) > 1:
                yield replace(grid, turned=True)


def _divisor_cuts(extent: int, cores: int) -> list[Cut]:
    """Cuts into tiles of one size, for each number of tiles that divides `cores`."""
    sizes = {-(-extent // n) for n in range(1, min(cores, extent) + 1) if cores % n == 0}
    return [cut(extent, size) for size in sorted(sizes)]


def _cut_in(cuts: list[Cut], parts: int) -> Cut | None:
    """The cut with `parts` intervals, if there is one."""
    return next((found for found in cuts if len(found) == parts), None)


def _listed(rule: Callable[[Layer, int], Iterator[Grid]]) -> Callable[[Layer, int], Grids]:
    """A strategy that lists the grids of a rule."""
    return lambda layer, cores: Grids.of(layer, list(rule(layer, cores)))


_TABLE = (
    Strategy("batch", AllCuts((BATCH,))),
    Strategy("blocks", _listed(_blocks)),
    Strategy("columns", AllCuts((COLUMNS,))),
    Strategy("equal_products", AllCuts(sums=True, equal=True)),
    Strategy("input_rows", _listed(_input_rows)),
    Strategy("output_channels", AllCuts((CHANNELS,))),
    Strategy("output_tiles", _listed(_output_tiles)),
    Strategy("products", AllCuts(sums=True)),
    Strategy("rows", AllCuts((ROWS,))),
    Strategy("terms", AllCuts((), sums=True)),
    Strategy("tiles", AllCuts((ROWS, COLUMNS))),
    Strategy("whole", AllCuts((), equal=True)),
)
STRATEGIES = {strategy.name: strategy for strategy in _TABLE}
"""All strategies by name."""


def find_strategy(name: str) -> Strategy:
    """The strategy called `name`. Raises PartitionError where there is none."""
    found = STRATEGIES.get(name)
    if found is None:
        raise PartitionError(
            f"there is no strategy {name!r}", fix=f"known strategies: {', '.join(STRATEGIES)}"
        )
    return found


REFERENCE = "output_tiles"
"""The BWDSP paper's strategy, whose busiest core the limit on work refers to."""
PLANNED = ("products", REFERENCE)
"""Strategies that the planner chooses from if only values count and each goes to one core."""
EQUAL = ("equal_products", REFERENCE)
"""Strategies that the planner chooses from otherwise, where a pair of grids is slower to price."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Choices:
    """Grids of one layer, the strategy that each originates from, and the limit on the fraction of
    the layer's work on one core.
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
        """The choices with the `grids` of another `strategy` added, each grid once."""
        every, origin = joined([self.grids, grids])
        own = np.append(self.origin, np.full((origin == 1).sum(), len(self.strategies)))
        return replace(self, grids=every, strategies=(*self.strategies, strategy), origin=own)


def given(layer: Layer, strategy: str, grid: Grid) -> Choices:
    """One grid as the only choice, without a limit on work."""
    return Choices(Grids.of(layer, [grid]), (strategy,), np.zeros(1, np.intp), math.inf)


def choices_of(
    layer: Layer, cores: int, strategies: Sequence[str], most_work: float | None
) -> Choices:
    """The grids of a layer whose busiest core has at most `most_work` times the reference's work.
    If no strategy divides the layer, its channels are cut into equal parts, or it stays whole.
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
    """The busiest core's fraction of a layer's work under the BWDSP paper's strategy."""
    return float(grid_options(layer, find_strategy(REFERENCE).grids(layer, cores), cores).work[0])


def _least_work(layer: Layer, grids: Grids) -> NDArray[np.float64]:
    """The largest cell's fraction of the work in each grid, without elements computed again."""
    extents = np.array((*layer.shape, *layer.op.terms), np.float64)
    found: NDArray[np.float64] = (grids.longest / extents).prod(axis=1)
    return found
