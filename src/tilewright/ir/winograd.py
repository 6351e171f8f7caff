"""Winograd transform matrices for 3x3 kernels with integer entries (Lavin & Gray, points 0, 1, -1,
2, -2, infinity).

y = A^T [(G g G^T) * (B^T d B)] A / divisor. The usual filter matrices hold sixths and twenty-
fourths; scaling each
by one integer and dividing once at the end keeps every intermediate value an integer for integer
data, so results
can be compared exactly.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]

_INPUT: dict[int, Any] = {
    2: [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
    4: [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ],
}
_FILTER: dict[int, Any] = {
    2: [[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]],
    4: [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]],
}
_OUTPUT: dict[int, Any] = {
    2: [[1, 1, 1, 0], [0, 1, -1, -1]],
    4: [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
}
_FILTER_SCALE = {2: 2, 4: 24}


@cache
def input_matrix(output_tile: int) -> Matrix:
    """B^T of F(output_tile, 3): (output_tile + 2) squared."""
    return np.array(_INPUT[output_tile], dtype=np.float64)


@cache
def filter_matrix(output_tile: int) -> Matrix:
    """G scaled to integers: (output_tile + 2, 3)."""
    return np.array(_FILTER[output_tile], dtype=np.float64)


@cache
def output_matrix(output_tile: int) -> tuple[Matrix, float]:
    """A^T (output_tile, output_tile + 2) and the divisor that undoes the filter's scale."""
    matrix = np.array(_OUTPUT[output_tile], dtype=np.float64)
    return matrix, float(_FILTER_SCALE[output_tile] ** 2)
