"""Shared sums compute the product of the matrix, with fewer operations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.ir.shared_sums import shared_sums
from tilewright.ir.winograd import transforms

GOOD = "0 5/8 -5/8 3/2 -3/2"
matrices = st.integers(1, 5).flatmap(
    lambda columns: st.lists(
        st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0]), min_size=columns, max_size=columns),
        min_size=1,
        max_size=5,
    )
)


def evaluated(matrix, column):
    values = {f"p{k}": x for k, x in enumerate(column)}
    for one in shared_sums(matrix):
        values[one.name] = sum(c * values[name] for c, name in one.terms)
    return [values[f"q{i}"] for i in range(len(matrix))]


@examples(1)
@given(matrices)
def test_the_sums_are_the_product(rows):
    matrix = np.array(rows)
    column = np.arange(1.0, matrix.shape[1] + 1)
    np.testing.assert_allclose(evaluated(matrix, column), matrix @ column, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("points", "operations"),
    [("0 1 -1", (4, 5, 4)), (GOOD, (12, 9, 12)), ("0 1/2 -1/2 1 -1 2 -2", (24, 12, 20))],
)
def test_points_in_pairs_share_their_even_and_odd_parts(points, operations):
    found = transforms(points)
    matrices = (found.input, found.filter, found.output)
    counts = tuple(sum(one.operations for one in shared_sums(m)) for m in matrices)
    assert counts == operations
