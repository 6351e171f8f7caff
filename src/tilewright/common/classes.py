"""Classes of equal rows of a table, from its columns of integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_SPARE_NUMBERS = 1 << 12
"""Range of values up to which few rows are counted in a table; many rows allow more."""


def classes_of(columns: Sequence[Ints], rows: int) -> tuple[Ints, list[int]]:
    """The class of each row by all columns, and the first row of each class.

    Classes are numbered in the order of their values.

    >>> code, first = classes_of([np.array([7, 7, 9, 7]), np.array([0, 1, 0, 0])], 4)
    >>> code.tolist(), first
    ([0, 1, 2, 0], [0, 1, 2])
    """
    limit = 4 * rows + _SPARE_NUMBERS
    code, span = np.zeros(rows, np.int64), 1
    seen: dict[tuple[int, int], Ints] = {}
    for column in columns:
        low = int(column.min())
        width = int(column.max()) - low + 1
        known = seen.get((low, width))
        if width == 1 or (known is not None and np.array_equal(known, column)):
            continue
        seen[low, width] = column
        if span * width > limit:
            column, width, low = *_dense(column, low, width, limit), 0
        if span * width > limit:
            code, span = _dense(code, 0, span, limit)
        code, span = code * width + (column - low), span * width
    code, span = _dense(code, 0, span, limit)
    first = np.empty(span, np.int64)
    first[code[::-1]] = np.arange(rows - 1, -1, -1)
    return code, first.tolist()


def _dense(numbers: Ints, low: int, span: int, limit: int) -> tuple[Ints, int]:
    """(rank of each of `numbers`, number of distinct ones); they lie within `span` from `low` on.
    Up to `limit` a table of occurrences takes a fraction of the time of sorting.
    """
    if span > limit:
        values, ranks = np.unique(numbers, return_inverse=True)
        return ranks, len(values)
    places = numbers - low
    occurs = np.zeros(span, np.bool_)
    occurs[places] = True
    values = np.flatnonzero(occurs)
    rank = np.empty(span, np.int64)
    rank[values] = np.arange(len(values))
    return rank[places], len(values)
