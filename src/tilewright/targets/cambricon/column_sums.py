"""Products of a matrix and one vector, compiled: exact sums of products of 16-bit integers.

In: rows of elements and a vector. Out: the sums, in 64 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.compiled import entry_point


@entry_point()
def add_products(
    rows: npt.NDArray[Any], vector: npt.NDArray[Any], sums: npt.NDArray[np.int64]
) -> None:
    """Add the sum of each row's products with the vector to the row's number in `sums`."""
    for i in range(len(sums)):
        total = np.int64(0)
        for k in range(len(vector)):
            total += np.int64(rows[i, k]) * np.int64(vector[k])
        sums[i] += total
