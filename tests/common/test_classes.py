"""Classes of equal rows are those that sorting the rows finds, numbered by their first rows; least
sums are those of all pairs.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.classes import FACTOR, classes_of_table
from tilewright.common.compiled_tables import SHIFT, classes_by_hashes, least_sums

FAR = 1 << 62


def by_comparison(columns: list[np.ndarray]) -> tuple[list[int], list[int]]:
    numbers: dict[tuple[int, ...], int] = {}
    first: list[int] = []
    for i, row in enumerate(zip(*columns, strict=True)):
        if numbers.setdefault(row, len(first)) == len(first):
            first.append(i)
    return [numbers[row] for row in zip(*columns, strict=True)], first


def lists(found: tuple[np.ndarray, np.ndarray]) -> tuple[list[int], list[int]]:
    code, first = found
    return code.tolist(), first.tolist()


@given(st.data())
def test_rows_of_near_and_of_far_values(data):
    rows = data.draw(st.integers(1, 40))
    value = st.sampled_from([0, 1, 7, 5000, 1 << 20, FAR, -FAR])
    column = st.lists(value, min_size=rows, max_size=rows).map(lambda v: np.array(v, np.int64))
    columns = data.draw(st.lists(column, min_size=1, max_size=6))
    columns.append(columns[0].copy())
    expected = by_comparison(columns)
    assert lists(classes_of_table(np.array(columns))) == expected
    assert lists(classes_by_hashes(np.array(columns))) == expected


@given(st.data())
def test_rows_whose_sums_are_equal_are_told_apart(data):
    """Without Numba rows have sums; each second row here has that of the row before it."""
    numbers = st.lists(st.integers(-9, 9), min_size=1, max_size=12)
    first, second, apart = data.draw(numbers), data.draw(numbers), data.draw(st.integers(-9, 9))
    rows = [(a, b + apart) for a, b in zip(first, second, strict=False)]
    alike = [((a + FACTOR + (1 << 63)) % (1 << 64) - (1 << 63), b - 1) for a, b in rows]
    every = [row for pair in zip(rows, alike, strict=True) for row in pair]
    columns = [np.array(column, np.int64) for column in zip(*every, strict=True)]
    columns.append(np.array([a * 5000 for a, _ in rows for _ in range(2)], np.int64))
    with pytest.MonkeyPatch.context() as context:
        context.delitem(sys.modules, "numba", raising=False)
        assert lists(classes_of_table(np.array(columns))) == by_comparison(columns)


def test_of_no_rows_there_is_no_class():
    assert lists(classes_of_table(np.empty((1, 0), np.int64))) == ([], [])


@pytest.mark.parametrize("columns", [np.empty((0, 3), np.int64), np.array([[4, 4, 4]])])
def test_without_a_difference_there_is_one_class(columns):
    assert lists(classes_of_table(columns)) == ([0, 0, 0], [0])


@given(st.integers(-FAR, FAR), st.integers(-FAR, FAR), st.integers(-FAR, FAR))
def test_different_rows_of_equal_hashes_are_told_apart(a, b, c):
    """The second number of the second row takes back what the first number changed."""

    def mixed(x: int) -> int:
        whole = x * FACTOR % (1 << 64)
        return whole ^ (whole >> int(SHIFT))

    d = np.array((mixed(a) + c - mixed(b)) % (1 << 64), np.uint64).astype(np.int64).item()
    columns = [np.array([a, b, a], np.int64), np.array([c, d, c], np.int64)]
    assert (classes_by_hashes(np.array(columns)) is None) == ((a, c) != (b, d))
    assert lists(classes_of_table(np.array(columns))) == by_comparison(columns)


@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 257, 5), (5, 70, 300), (40, 300, 600)])
def test_least_sums_are_those_of_all_pairs(shape: tuple[int, int, int], spread: float) -> None:
    """Sums of all pairs alike, and those of which a few pairs have the least."""
    rows, inner, columns = shape
    draw = np.random.default_rng(0)
    first, second = draw.random((inner, rows)).T, draw.random((inner, columns))
    first = first + spread * draw.permutation(inner)
    every = first[:, :, None] + second
    np.testing.assert_array_equal(least_sums(first, second), every.min(axis=1))
