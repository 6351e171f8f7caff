"""Transform matrices are exact for any points, and the textbook's are Lavin and Gray's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.common.errors import ProgramError
from tilewright.ir.winograd import (
    TEXTBOOK_POINTS,
    exact_transforms,
    parse_points,
    points_of,
    transforms,
)

fractions = st.fractions(-3, 3, max_denominator=8)


def times(rows, column):
    return [sum(a * b for a, b in zip(row, column, strict=True)) for row in rows]


def both_ways(rows, square):
    """rows x square x rows^T."""
    half = [times(rows, column) for column in zip(*square, strict=True)]
    return [times(rows, column) for column in zip(*half, strict=True)]


@st.composite
def tiles(draw):
    """Points, a 3 x 3 kernel and the pixels of one tile, all fractions."""
    points = draw(st.lists(fractions, min_size=2, max_size=7, unique=True))
    side = len(points) + 1
    numbers = st.integers(-9, 9).map(Fraction)
    kernel, pixels = ([[draw(numbers) for _ in range(n)] for _ in range(n)] for n in (3, side))
    return tuple(points), kernel, pixels


@examples(1)
@given(tiles())
def test_every_choice_of_points_is_a_convolution(case):
    points, kernel, pixels = case
    found = exact_transforms(points)
    u, v = both_ways(found.filter, kernel), both_ways(found.input, pixels)
    products = [[a * b for a, b in zip(*rows, strict=True)] for rows in zip(u, v, strict=True)]
    tile = len(points) - 1
    expected = [
        [
            sum(kernel[r][c] * pixels[i + r][j + c] for r in range(3) for c in range(3))
            for j in range(tile)
        ]
        for i in range(tile)
    ]
    assert both_ways(found.output, products) == expected


def test_the_textbook_matrices_are_integers():
    """F(4, 3) as Lavin and Gray print it, the filter's fractions times 24."""
    found = transforms(TEXTBOOK_POINTS[4])
    assert found.input.tolist() == [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
    assert found.filter.tolist() == [
        [6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24],
    ]  # fmt: skip
    assert found.output.tolist() == [
        [1, 1, 1, 1, 1, 0],
        [0, 1, -1, 2, -2, 0],
        [0, 1, 1, 4, 4, 0],
        [0, 1, -1, 8, -8, 1],
    ]
    assert (found.divisor, transforms(TEXTBOOK_POINTS[2]).divisor) == (576, 4)


def test_points_that_are_no_integers_need_no_division():
    found = transforms("0 5/8 -5/8 3/2 -3/2")
    assert (found.divisor, found.points) == (1, 6)
    assert found.filter[0].tolist() == [pytest.approx(64 / 25 * 4 / 9), 0, 0]


@pytest.mark.parametrize(
    ("tile_and_points", "message"),
    [
        ((3, None), "output_tile is 3; use 2, 4, 6, or give points"),
        ((2, "0 1 x"), "'0 1 x' are no interpolation points; "
         "give different fractions"),
        ((2, "0 1 1"), "'0 1 1' are no interpolation points; "
         "give different fractions"),
        ((4, "0 1 -1"), "F(4, 3) with the points '0 1 -1'; "
         "give 5 finite ones"),
    ],
)  # fmt: skip
def test_wrong_points(tile_and_points, message):
    with pytest.raises(ProgramError) as caught:
        points_of(*tile_and_points)
    assert str(caught.value) == message


def test_points_are_parsed_exactly():
    assert parse_points("0 5/8 -3/2") == (0, Fraction(5, 8), Fraction(-3, 2))
    assert np.array_equal(transforms("0 1 -1").input, transforms("0/1 1 -1").input)
