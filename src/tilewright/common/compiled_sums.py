"""Least sums of two matrices, compiled: their product in which sums stand for products and the
least for the sum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.common.compiled import entry_point

_Floats = npt.NDArray[np.float64]
_BLOCK = 256
"""Rows and columns of the second matrix that are taken together: they stay in the cache."""


def least_sums(first: _Floats, second: _Floats) -> _Floats:
    """The least of `first[i, j] + second[j, k]` over all j, for each i and k."""
    least = np.full((first.shape[0], second.shape[1]), np.inf)
    _fill(np.ascontiguousarray(first), np.ascontiguousarray(second), least)
    return least


@entry_point()
def _fill(first: _Floats, second: _Floats, least: _Floats) -> None:
    rows, columns = second.shape
    for j in range(0, rows, _BLOCK):
        for k in range(0, columns, _BLOCK):
            for i in range(first.shape[0]):
                own = least[i, k : k + _BLOCK]
                for row in range(j, min(j + _BLOCK, rows)):
                    cost, beside = first[i, row], second[row, k : k + _BLOCK]
                    for column in range(own.size):
                        found = cost + beside[column]
                        own[column] = found if found < own[column] else own[column]
