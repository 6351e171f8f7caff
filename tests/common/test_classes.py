"""Classes of equal rows are those that sorting the rows finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.classes import classes_of

FAR = 1 << 62
"""So far apart that no table of all numbers in between could be kept."""


def by_sorting(columns: list[np.ndarray]) -> tuple[list[int], list[int]]:
    table = np.stack(columns, axis=1)
    _, first, code = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return code.ravel().tolist(), first.tolist()


@given(st.data())
def test_rows_of_few_and_of_far_values(data):
    rows = data.draw(st.integers(1, 40))
    value = st.sampled_from([0, 1, 7, 5000, 1 << 20, FAR, -FAR])
    column = st.lists(value, min_size=rows, max_size=rows).map(lambda v: np.array(v, np.int64))
    columns = data.draw(st.lists(column, min_size=1, max_size=6))
    columns.append(columns[0].copy())
    code, first = classes_of(columns, rows)
    assert (code.tolist(), first) == by_sorting(columns)


@pytest.mark.parametrize("columns", [[], [np.array([4, 4, 4])]])
def test_without_a_difference_there_is_one_class(columns):
    code, first = classes_of(columns, 3)
    assert (code.tolist(), first) == ([0, 0, 0], [0])
