"""Classes of equal rows in a table of integer columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tilewright.common.deferred import Deferred

if TYPE_CHECKING:
    from tilewright.common import compiled_tables as compiled
else:  # heavy: Numba
    compiled = Deferred("tilewright.common.compiled_tables")

Ints = npt.NDArray[np.int64]
FEW_ROWS = 256
"""Number of rows up to which pricing all is faster than finding equal ones."""
_MANY_ROWS = 1 << 20
"""Number of rows from which a hash table pays off even if Numba has to be loaded first, in 0.6 s.
That is the time to sort five million rows, and several such tables usually come together. With
Numba loaded, hashing takes a tenth of the time of sorting at any size.
"""
FACTOR = 0x9E3779B97F4A7C15
"""An odd number whose multiples and powers spread over all bits: 2^64 over the golden ratio."""
_PLACES = 8
"""Table entries per row up to which keys are marked in a table; sparser keys are sorted."""


def classes_of_table(table: Ints) -> tuple[Ints, Ints]:
    """The class of each row of a table (columns, rows), equal for equal rows, and the first row of
    each class. Classes are numbered in the order of their first rows.

    >>> code, first = classes_of_table(np.array([[7, 7, 9, 7], [0, 1, 0, 0]]))
    >>> code.tolist(), first.tolist()
    ([0, 1, 2, 0], [0, 1, 2])
    """
    hashed = table.shape[1] >= _MANY_ROWS or "numba" in sys.modules
    found = compiled.classes_by_hashes(table) if hashed else _by_sums(table)
    return found or _by_columns(table)


def _by_sums(table: Ints) -> tuple[Ints, Ints] | None:
    """The classes by a weighted sum of each row's values, with one factor per column; None if
    different rows have equal sums.
    """
    sums, factor = np.zeros(table.shape[1], np.int64), 1
    for column in table:
        factor = factor * FACTOR % (1 << 64)
        sums += column * np.uint64(factor).astype(np.int64)
    _, first, code = np.unique(sums, return_index=True, return_inverse=True)
    code, first = _in_order(code, first)
    return (code, first) if np.array_equal(table, table[:, first[code]]) else None


def _in_order(code: Ints, first: Ints) -> tuple[Ints, Ints]:
    """The classes renumbered in the order of their first rows."""
    order = np.argsort(first)
    number = np.empty_like(first)
    number[order] = np.arange(len(first))
    return number[code], first[order]


def _by_columns(table: Ints) -> tuple[Ints, Ints]:
    rows = table.shape[1]
    code, count = np.zeros(rows, np.int64), min(rows, 1)
    for column in table:
        code, count = _refined(code, count, column)
    first = np.empty(count, np.int64)
    first[code[::-1]] = np.arange(rows)[::-1]  # reversed: the last write per class wins
    return _in_order(code, first)


def _refined(code: Ints, count: int, column: Ints) -> tuple[Ints, int]:
    """The `count` classes refined by one more column, and their new number."""
    if not count:
        return code, 0
    least = int(column.min())
    span = int(column.max()) - least + 1
    if count * span >= 1 << 62:
        column, span = _numbered(column)
        least = 0
    key = code * span + (column - least)
    if count * span > _PLACES * len(code):
        return _numbered(key)
    there = np.zeros(count * span, np.int64)
    there[key] = 1
    number = np.cumsum(there)
    return number[key] - 1, int(number[-1])


def _numbered(values: Ints) -> tuple[Ints, int]:
    distinct, code = np.unique(values, return_inverse=True)
    return code, len(distinct)
