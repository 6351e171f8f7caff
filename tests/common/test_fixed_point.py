"""Every rounding is that of the exact quotient; products and their sums are those of integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ShapeError
from tilewright.common.fixed_point import (
    EXACT_IN_SINGLE,
    exact_product,
    requantised,
    rounding_called,
)

ROUNDED = {
    "even": round,
    "half_up": lambda quotient: math.floor(quotient + Fraction(1, 2)),
    "floor": math.floor,
    "zero": math.trunc,
}


@pytest.mark.parametrize("rounding", ROUNDED)
@pytest.mark.parametrize("saturate", [False, True])
def test_each_rounding_is_that_of_the_exact_quotient(rounding: str, saturate: bool) -> None:
    kind, values = np.dtype(np.int8), np.arange(-700, 700)
    for divisor in range(1, 9):
        exact = [ROUNDED[rounding](Fraction(int(value), divisor)) for value in values]
        if saturate:
            expected = [min(127, max(-128, value)) for value in exact]
        else:
            expected = [(value + 128) % 256 - 128 for value in exact]
        found = requantised(values, divisor, rounding_called(rounding), saturate=saturate, to=kind)
        assert found.tolist() == expected
        assert found.dtype == kind


def test_an_unknown_rounding_names_the_known_ones() -> None:
    with pytest.raises(ShapeError) as error:
        rounding_called("up")
    assert str(error.value) == "unknown rounding 'up'; use one of even, half_up, floor, zero"


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64"])
@given(st.data())
def test_a_product_is_that_of_integers_of_any_size(kind: str, data: st.DataObject) -> None:
    """Values at the limits of their types: sums that single precision, double precision and 64 bits
    hold no more are exact too, the last modulo 2^64.
    """
    limits = np.iinfo(kind)
    value = st.sampled_from([limits.min, limits.max, limits.max - 1, 3])
    depth = data.draw(st.sampled_from([1, 2, 3, 255, 1025]))
    row = [data.draw(value), *[limits.max] * (depth - 2), data.draw(value)][:depth]
    column = [data.draw(value), *[limits.min or limits.max] * (depth - 2), data.draw(value)][:depth]
    found = exact_product(np.array([row], kind), np.array([column], kind).T).item()
    exact = sum(a * b for a, b in zip(row, column, strict=True))
    assert found == (exact + (1 << 63)) % (1 << 64) - (1 << 63)


def test_single_precision_is_exact_up_to_its_limit() -> None:
    assert int(np.float32(EXACT_IN_SINGLE)) == EXACT_IN_SINGLE
    assert int(np.float32(EXACT_IN_SINGLE + 1)) != EXACT_IN_SINGLE + 1
