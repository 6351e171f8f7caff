"""The data-parallel baseline of the BWDSP paper, Eq. 3: rows of the input in equal parts.

A core has AVG_H = ceil(I_H / N) rows at their whole width and computes as many rows of the result;
pooling divides its own result likewise. Vectors have no rows: their elements are divided.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ops import Conv2d
from tilewright.partition.cuts import IMAGES, ROWS, along, undivided, vector_grid
from tilewright.partition.division import Grid, cut
from tilewright.partition.layers import Layer


def input_rows(height: int, cores: int) -> int:
    """AVG_H, rows of a core.

    >>> [input_rows(height, 56) for height in (224, 112, 56, 28, 14)]
    [4, 2, 1, 1, 1]
    """
    return -(-height // cores)


class InputRows:
    """Regardless of what the next layer takes."""

    name = "input_rows"

    def grids(self, layer: Layer, cores: int) -> Iterator[Grid]:
        """One grid; padding may give a result more rows than its input has, and cores more rows."""
        if len(layer.shape) != IMAGES or layer.shape[ROWS] == 1:
            yield vector_grid(layer, cores)
            return
        height = layer.shape[ROWS]
        if isinstance(layer.op, Conv2d):
            height = max(height, layer.op.height)
        rows = input_rows(height, cores)
        yield along(undivided(layer), ROWS, cut(layer.shape[ROWS], rows))


STRATEGY = InputRows()
