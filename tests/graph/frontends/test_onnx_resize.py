"""Where results of Resize lie along what they are made of."""

from fractions import Fraction
from types import SimpleNamespace

import pytest

from tilewright.graph.frontends.onnx.operators.resize import _coordinate


@pytest.mark.parametrize("mode", ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("size", [4, 6])
def test_results_of_a_whole_scale_lie_the_same_from_both_ends(mode, size):
    node = SimpleNamespace(attributes={"coordinate_transformation_mode": mode})
    found = [_coordinate(node, i, 2, Fraction(size, 2), size) for i in range(size)]
    assert [a + b for a, b in zip(found, reversed(found), strict=True)] == [1] * size


def test_results_of_any_scale_lie_the_same_from_both_ends_where_the_mode_says_so():
    node = SimpleNamespace(attributes={"coordinate_transformation_mode": "half_pixel_symmetric"})
    found = [_coordinate(node, i, 3, Fraction(8, 5), 4) for i in range(4)]
    assert [a + b for a, b in zip(found, reversed(found), strict=True)] == [2] * 4
    assert found[1] - found[0] == Fraction(5, 8)


@pytest.mark.parametrize(
    ("mode", "found"),
    [("asymmetric", [0, 2, 4]), ("align_corners", [0, 2, 4]), ("half_pixel", [0.5, 2.5, 4.5])],
)
def test_three_results_of_six_elements(mode, found):
    node = SimpleNamespace(attributes={"coordinate_transformation_mode": mode})
    n = 5 if mode == "align_corners" else 6
    assert [_coordinate(node, i, n, Fraction(1, 2), 3) for i in range(3)] == found
