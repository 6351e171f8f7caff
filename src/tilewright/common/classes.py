"""Classes of equal rows of a table, from its columns of integers."""

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
"""So few rows are priced without finding equal ones, which would take longer."""
_MANY_ROWS = 1 << 20
"""From here on a table of hashes is faster even where Numba has to be loaded for it, in 0.6 s: as
long as sorting five million rows takes, and some such tables come together. Where it is loaded,
tables of all sizes take a tenth of the time of sorting.
"""
FACTOR = 0x9E3779B97F4A7C15
"""An odd number whose multiples and powers spread over all bits: 2^64 over the golden ratio."""
_PLACES = 8
"""Places of an array for each row; where values lie farther apart they are sorted."""


def classes_of_table(table: Ints) -> tuple[Ints, Ints]:
    """The class of each row of a table (columns, rows) by all columns, and the first row of each
    class. Classes are numbered in the order of their first rows.

    >>> code, first = classes_of_table(np.array([[7, 7, 9, 7], [0, 1, 0, 0]]))
    >>> code.tolist(), first.tolist()
    ([0, 1, 2, 0], [0, 1, 2])
    """
    hashed = table.shape[1] >= _MANY_ROWS or "numba" in sys.modules
    found = compiled.classes_by_hashes(table) if hashed else _by_sums(table)
    return found or _by_columns(table)


def _by_sums(table: Ints) -> tuple[Ints, Ints] | None:
    """The classes by one sum of each row's values, every column times a factor of its own; None
    where different rows have equal sums.
    """
    sums, factor = np.zeros(table.shape[1], np.int64), 1
    for column in table:
        factor = factor * FACTOR % (1 << 64)
        sums += column * np.uint64(factor).astype(np.int64)
    _, first, code = np.unique(sums, return_index=True, return_inverse=True)
    code, first = _in_order(code, first)
    return (code, first) if np.array_equal(table, table[:, first[code]]) else None


def _in_order(code: Ints, first: Ints) -> tuple[Ints, Ints]:
    """Classes numbered in the order of their first rows."""
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
    first[code[::-1]] = np.arange(rows)[::-1]  # of equal places the last one written stays
    return _in_order(code, first)


def _refined(code: Ints, count: int, column: Ints) -> tuple[Ints, int]:
    """The classes, of which there are `count`, told apart by one more column."""
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
