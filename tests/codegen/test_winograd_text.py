"""Sums of products with a transform's coefficients, and names of its points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.codegen.c.winograd_text import _sum, transform_name
from tilewright.ir.winograd import TEXTBOOK_POINTS


@given(st.lists(st.sampled_from([0.0, 0.5, -0.5, 1.0, -1.0, 4.0, -5.0]), min_size=1, max_size=6))
def test_a_sum_is_the_inner_product(coefficients: list[float]) -> None:
    values = [3.0, 7.0, 11.0, 13.0, 17.0, 19.0][: len(coefficients)]
    text = _sum(np.array(coefficients))
    found = eval(text or "0", {f"p{k}": value for k, value in enumerate(values)})
    assert found == np.dot(coefficients, values)


@pytest.mark.parametrize("tile", TEXTBOOK_POINTS)
def test_points_of_the_textbook_are_named_by_their_tile(tile: int) -> None:
    assert transform_name(TEXTBOOK_POINTS[tile]) == str(tile)


def test_other_points_are_in_the_name() -> None:
    assert transform_name("0 5/8 -5/8 3/2 -3/2") == "4_0_5o8_m5o8_3o2_m3o2"
