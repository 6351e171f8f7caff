"""Mappings and reductions as memory has them: what they take, and what they refuse."""

import numpy as np
import pytest

from tilewright.common.errors import ShapeError
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory


def test_gathered_axes_stand_behind_those_of_the_result_or_have_one_step():
    sums = InMemory((4, 3), straight((4,)), (straight((4, 3)),), "x0", "sum")
    x = np.arange(12.0).reshape(4, 3)
    assert np.array_equal(sums.reference(x), x.sum(axis=1))
    single = InMemory((1, 4), straight((4,), (1,)), (straight((1, 4)),), "x0", "sum")
    assert np.array_equal(single.reference(x[:1, :1] + np.arange(4.0)), np.arange(4.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: InMemory((4,), straight((3,)), ()),
            "map: dimension 0 of 3 is addressed from 0 to 3",
        ),
        (
            lambda: InMemory((4,), straight((4,)), (), "x0"),
            "map: 'x0' reads more than 0 operands",
        ),
        (
            lambda: InMemory((4, 2), straight((4,)), (), "1"),
            "map: the result is written twice by steps of i1; gather them: += for their sum, "
            "max= for the largest",
        ),
        (
            lambda: InMemory((2, 4), straight((4,), (1,)), (straight((2, 4)),), "x0", "sum"),
            "reduce: axis 0 stands before those of the result",
        ),
        (
            lambda: InMemory((4,), Access((4,), (((0, 1),),), ()), (), "1"),
            "map: each of 1 dimensions needs one place",
        ),
    ],
)
def test_what_no_stage_computes_is_refused(make, message):
    with pytest.raises(ShapeError) as error:
        make()
    assert str(error.value) == message
