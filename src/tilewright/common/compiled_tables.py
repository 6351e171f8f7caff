"""Compiled work on large tables: classes of equal rows by hashing, min-plus products."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.common.classes import FACTOR
from tilewright.common.compiled import entry_point

_Ints = npt.NDArray[np.int64]
_Hashes = npt.NDArray[np.uint64]
_Floats = npt.NDArray[np.float64]

SHIFT = np.uint64(29)
_ROWS, _COLUMNS = 64, 256
"""Rows and columns of the second matrix per block, which stays in the cache."""
_AT_A_TIME = 4
"""Rows of a block for which a sum is loaded and stored once."""


def classes_by_hashes(table: _Ints) -> tuple[_Ints, _Ints] | None:
    """The classes of a table (columns, rows), as `classes_of_table` numbers them; None if different
    rows have equal hashes.
    """
    rows = table.shape[1]
    code, first = np.empty(rows, np.int64), np.empty(rows, np.int64)
    slots = np.full(2 << max(1, rows).bit_length(), -1, np.int64)
    bits, hashes, factor = table.view(np.uint64), np.zeros(rows, np.uint64), np.uint64(FACTOR)
    count = _find(table, bits, hashes, slots, code, first, factor)
    return None if count < 0 else (code, first[:count].copy())


@entry_point()
def _find(
    table: _Ints,
    bits: _Hashes,
    hashes: _Hashes,
    slots: _Ints,
    code: _Ints,
    first: _Ints,
    factor: np.uint64,
) -> int:
    """Fill in the classes; returns their number, -1 if different rows have equal hashes. `slots` is
    an open-addressing table; its size is a power of two above twice the rows.
    """
    columns, rows = table.shape
    for c in range(columns):
        for i in range(rows):
            mixed = (hashes[i] + bits[c, i]) * factor
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


def least_sums(first: _Floats, second: _Floats) -> _Floats:
    """Min-plus product: the least `first[i, j] + second[j, k]` over all j, for each i and k.

    The j that may give the least sums are tried first, so that a bound leaves out most others.
    """
    order = np.argsort(first.min(axis=0, initial=np.inf) + second.min(axis=1, initial=np.inf))
    first, second = np.ascontiguousarray(first[:, order]), np.ascontiguousarray(second[order])
    blocks = np.arange(0, second.shape[1], _COLUMNS)
    least = np.full((first.shape[0], second.shape[1]), np.inf)
    _fill_least(first, second, np.minimum.reduceat(second, blocks, axis=1), least)
    return least


@entry_point()
def _fill_least(first: _Floats, second: _Floats, lowest: _Floats, least: _Floats) -> None:
    """Fill in the least sums; `lowest` has the lowest number of each row in each block."""
    rows, columns = second.shape
    for k in range(0, columns, _COLUMNS):
        block, end = k // _COLUMNS, k + _COLUMNS
        for j in range(0, rows, _ROWS):
            last = min(j + _ROWS, rows) - 1
            for i in range(first.shape[0]):
                own = least[i, k:end]
                most = -np.inf
                for column in range(own.size):
                    most = own[column] if own[column] > most else most
                for a in range(j, last + 1, _AT_A_TIME):
                    b, c, d = min(a + 1, last), min(a + 2, last), min(a + 3, last)
                    p, q, r, s = first[i, a], first[i, b], first[i, c], first[i, d]
                    one = min(p + lowest[a, block], q + lowest[b, block])
                    if min(one, r + lowest[c, block], s + lowest[d, block]) >= most:
                        continue
                    by_a, by_b = second[a, k:end], second[b, k:end]
                    by_c, by_d = second[c, k:end], second[d, k:end]
                    for column in range(own.size):
                        # A comparison with the old sum comes first: were it the last one, the
                        # store would become a masked store, which takes five times as long.
                        sum_a, sum_b = p + by_a[column], q + by_b[column]
                        sum_c, sum_d = r + by_c[column], s + by_d[column]
                        found = own[column]
                        found = sum_a if sum_a < found else found
                        other = sum_b if sum_b < sum_c else sum_c
                        found = sum_d if sum_d < found else found
                        own[column] = other if other < found else found
