"""Memory of a plan: copies between forms whose blocks no loops run along together."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.network.planning.form import StoredDim, canonical, row_major
from tilewright.network.planning.memory import Memory


def in_blocks(shape, size):
    """Of the second axis so many lie together, behind the first."""
    rows, columns = shape
    dims = [StoredDim(1, size, columns // size), StoredDim(0, 1, rows), StoredDim(1, 1, size)]
    return canonical(shape, dims, (0, 0))


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (6, 4, ["sum_layout", "sum"]),
        (4, 6, ["sum_layout", "sum"]),
        (6, 3, ["sum"]),
        (12, 4, ["sum"]),
    ],
)
def test_blocks_that_do_not_divide_each_other_are_left_by_a_copy(before, after, names):
    memory, shape = Memory("f64"), (3, 12)
    x = memory.value("x", in_blocks(shape, before))
    bias = memory.numbers("bias", np.arange(12.0), (1,))
    y = memory.value("y", in_blocks(shape, after))
    memory.map("sum", "elementwise", "x0 + x1", y, (x, bias))
    assert [draft.name for draft in memory.drafts] == names

    numbers = np.arange(36.0).reshape(shape)
    held = {x.value: x.form.stored(numbers), bias.value: np.arange(12.0)}
    for draft in memory.drafts:
        *operands, (_, result) = draft.arguments
        shaped = zip(operands, draft.op.input_shapes, strict=True)
        read = [held[value].reshape(extents) for (_, value), extents in shaped]
        held[result] = draft.op.reference(*read)
    wanted = y.form.stored(numbers + np.arange(12.0))
    np.testing.assert_array_equal(held[y.value].ravel(), wanted.ravel())


def test_a_copy_into_the_order_of_c_needs_no_other():
    memory = Memory("f64")
    x = memory.value("x", in_blocks((3, 12), 6))
    y = memory.value("y", row_major((3, 12)))
    memory.map("copy", "layout", "x0", y, (x,))
    assert [draft.name for draft in memory.drafts] == ["copy"]
