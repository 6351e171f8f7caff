"""Loops and dimensions that join say what they said apart."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.network.planning.access import normalised
from tilewright.ops.access import Access, straight
from tilewright.ops.mapping import InMemory

ROWS, COLUMNS, SUMMED = 3, 4, 2
ALONG_A_DIMENSION = st.tuples(st.integers(2, 5), st.sampled_from([1, -1]), st.integers(-2, 4))


@examples(150)
@given(ALONG_A_DIMENSION, ALONG_A_DIMENSION)
@example((3, 1, 0), (4, 1, 0))
@example((3, -1, 2), (4, -1, 3))
@example((3, 1, 0), (4, 1, -1))
@example((3, -1, 2), (4, -1, 2))
@example((3, 1, 0), (5, 1, 0))
@example((3, -1, 2), (5, -1, 3))
@example((3, 1, 0), (4, -1, 3))
@example((5, 1, 1), (4, 1, 0))
def test_a_sum_in_fewest_loops_is_the_sum(rows, columns) -> None:
    """Of parts, borders and reversed axes of a tensor; what is whole and runs one way is joined."""
    (height, down, top), (width, across, left) = rows, columns
    read = Access((SUMMED, height, width), (((2, 1),), ((0, down),), ((1, across),)),
                  (0, top, left), fill=0.0)  # fmt: skip
    op = InMemory((ROWS, COLUMNS, SUMMED), straight((ROWS, COLUMNS)), (read,), "x0", gather="sum")
    joined = normalised(op)
    x = np.arange(1.0, 1 + SUMMED * height * width).reshape(read.shape)
    given = x.reshape(joined.operands[0].shape)
    assert (joined.reference(given).reshape(ROWS, COLUMNS) == op.reference(x)).all()
    whole = width == COLUMNS and left == (0 if across > 0 else COLUMNS - 1)
    assert (len(joined.extents) == 2) == (whole and down == across)
