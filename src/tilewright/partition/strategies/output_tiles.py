"""The output-driven strategy of the BWDSP paper, Eqs. 4 and 5: tiles that pooling does not cut.

From 2 N rows on, a core has whole rows of the result (Eq. 4); below, two rows of such a width that
there is a core for every tile, rounded up to an even one (Eq. 5; the rounding is what Table 4 has).
Pooling computes from the tile of its input. Inputs are derived from these (`Op.needed`). Where the
rule gives more tiles than cores, which the paper does not treat, they grow by two columns.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ops import Pool2d
from tilewright.partition.cuts import COLUMNS, IMAGES, ROWS, along, undivided, vector_grid
from tilewright.partition.division import Grid, cut
from tilewright.partition.layers import Layer


def output_tile(height: int, width: int, cores: int) -> tuple[int, int]:
    """Rows and columns of a core's part of a result of `height` x `width`.

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


class OutputTiles:
    """A convolution and the pooling behind it need no exchange between them."""

    name = "output_tiles"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """One grid."""
        grid = undivided(layer)
        if len(layer.shape) != IMAGES or layer.shape[ROWS:] == (1, 1):
            yield vector_grid(layer, cores)
            return
        stride = layer.op.stride if isinstance(layer.op, Pool2d) else (1, 1)
        size = layer.op.input_shapes[0] if isinstance(layer.op, Pool2d) else layer.shape
        rows, columns = output_tile(size[ROWS], size[COLUMNS], cores)
        found = _tiled(grid, layer, (-(-rows // stride[0]), -(-columns // stride[1])))
        if found.cells > cores:  # a pool whose padding gives it more outputs than its input has
            found = _tiled(grid, layer, output_tile(layer.shape[ROWS], layer.shape[COLUMNS], cores))
        yield found


def _tiled(grid: Grid, layer: Layer, tile: tuple[int, int]) -> Grid:
    """Rows and columns in tiles."""
    rows = cut(layer.shape[ROWS], tile[0])
    return along(along(grid, ROWS, rows), COLUMNS, cut(layer.shape[COLUMNS], tile[1]))


STRATEGY = OutputTiles()
