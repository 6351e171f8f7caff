"""Looking up in a table: against one element after the other, and refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import ShapeError
from tilewright.ops.lookup import lookup


@given(
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), min_size=1, max_size=9),
    st.lists(st.integers(-128, 127), min_size=1, max_size=9).map(lambda half: [*half, *half]),
    st.integers(0, 31),
)
def test_lookups_are_clipped_to_the_ends_of_the_table(numbers, table, shift):
    op = lookup(len(numbers), entries=len(table), shift=shift)
    middle = len(table) // 2
    expected = [
        table[min(max(number // 2**shift, -middle), middle - 1) + middle] for number in numbers
    ]
    assert op.reference(np.array(numbers), np.array(table)).tolist() == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "lookup: n must be a positive integer, found 0"),
        ({"entries": 3}, "lookup: a table of 3 has no middle; an even number of entries"),
        ({"shift": 32}, "lookup: shift must be in 0..31, found 32"),
        (
            {"dtype": "i32,i8:i32:i16"},
            "lookup takes integers and gives elements of its table, found i32 for the integers, "
            "i8 for the table and i16 for the result; --dtype i32,i8:i32:i8",
        ),
    ],
)
def test_operators_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ShapeError) as caught:
        lookup(**{"n": 4} | options)
    assert str(caught.value) == message
