"""Which rows of a table are equal, from its columns of integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def classes_of(columns: Sequence[Ints], rows: int) -> tuple[Ints, list[int]]:
    """The class of each row by all columns, and the first row of each class.

    >>> code, first = classes_of([np.array([7, 7, 9, 7]), np.array([0, 1, 0, 0])], 4)
    >>> code.tolist(), first
    ([0, 1, 2, 0], [0, 1, 2])
    """
    code, span = np.zeros(rows, np.int64), 1
    for column in columns:
        low = int(column.min())
        width = int(column.max()) - low + 1
        if width == 1:
            continue
        if span * width >= 1 << 62:
            code, span = _dense(code)
            column, width = _dense(column)
            low = 0
        code, span = code * width + (column - low), span * width
    if span == 1:
        return code, [0]
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return inverse, first.tolist()


def _dense(column: Ints) -> tuple[Ints, int]:
    values, inverse = np.unique(column, return_inverse=True)
    return inverse, len(values)
