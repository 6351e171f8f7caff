"""Classes of equal rows of a table, from its columns of integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tilewright.common.compiled import entry_point

Ints = npt.NDArray[np.int64]
_Hashes = npt.NDArray[np.uint64]

FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""An odd number whose multiples spread over all bits: 2^64 over the golden ratio."""
SHIFT = np.uint64(29)


def classes_of(columns: Sequence[Ints], rows: int) -> tuple[Ints, Ints]:
    """The class of each row by all columns, and the first row of each class.

    Classes are numbered in the order of their first rows.

    >>> code, first = classes_of([np.array([7, 7, 9, 7]), np.array([0, 1, 0, 0])], 4)
    >>> code.tolist(), first.tolist()
    ([0, 1, 2, 0], [0, 1, 2])
    """
    table = np.empty((len(columns), rows), np.int64)
    for own, column in zip(table, columns, strict=True):
        own[...] = column
    return classes_of_table(table)


def classes_of_table(table: Ints) -> tuple[Ints, Ints]:
    """`classes_of` the rows of a table (columns, rows)."""
    rows = table.shape[1]
    code, first = np.empty(rows, np.int64), np.empty(rows, np.int64)
    slots = np.full(2 << max(1, rows).bit_length(), -1, np.int64)
    count = _find(table, table.view(np.uint64), np.zeros(rows, np.uint64), slots, code, first)
    if count < 0:
        return _by_sorting(table)
    return code, first[:count].copy()


@entry_point()
def _find(table: Ints, bits: _Hashes, hashes: _Hashes, slots: Ints, code: Ints, first: Ints) -> int:
    """Fill in the classes and return their number, -1 where different rows have equal hashes;
    `slots` are places of an open table, a power of two and more than twice the rows.
    """
    columns, rows = table.shape
    for c in range(columns):
        for i in range(rows):
            mixed = (hashes[i] + bits[c, i]) * FACTOR
            hashes[i] = mixed ^ (mixed >> SHIFT)
    count = 0
    for i in range(rows):
        place = np.int64(hashes[i] >> np.uint64(1)) & (slots.size - 1)
        while slots[place] >= 0 and hashes[first[slots[place]]] != hashes[i]:
            place = (place + 1) & (slots.size - 1)
        if slots[place] < 0:
            slots[place] = count
            first[count] = i
            count += 1
        code[i] = slots[place]
    for c in range(columns):
        for i in range(rows):
            if table[c, i] != table[c, first[code[i]]]:
                return -1
    return count


def _by_sorting(table: Ints) -> tuple[Ints, Ints]:
    _, first, code = np.unique(table, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[code.ravel()], first[order]
