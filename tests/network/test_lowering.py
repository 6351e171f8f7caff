"""Lowering of operators to stages: whose form a result takes, and where its parts lie."""

from __future__ import annotations

import pytest

from tilewright.network.planning.form import StoredDim, canonical, row_major
from tilewright.network.planning.lowering import _followed, _of_whole_steps, runs_along_blocks
from tilewright.network.planning.memory import in_order
from tilewright.ops.notation import operator_of


@pytest.mark.parametrize(
    ("text", "shapes", "number"),
    [
        ("y[i,j] = x[i,j] + w[2*i,j]", {"w": (7, 4)}, 1),
        ("y[i,j] = x[2*i,j] + w[i,j]", {"x": (7, 4)}, 0),
        ("y[i,j] = x[i,j] + w[i,j]", {}, 0),
        ("y[i,j] = x[j] + w[i,j]", {}, 1),
        ("y[i,j] = x[i] + w[j]", {}, None),
    ],
)
def test_a_result_follows_the_largest_operand_that_moves_as_it_does(text, shapes, number):
    op = operator_of(text, i=3, j=4, **shapes)
    assert _followed(op.definitions[-1]) == number


def test_interleaved_parts_are_equally_long():
    """Three taps at every other row give an odd number of rows: one place behind them."""
    op = operator_of("y[2*i+u,j] += x[i,j] * w[u,j]", i=3, u=3, j=4)
    (tensor,) = op.definitions
    assert (op.out_shape, len(tensor.addends)) == ((7, 4), 2)
    padded = in_order((7, 4), [0, 1], (), (1, 0))
    assert _of_whole_steps(row_major((7, 4)), tensor) == padded
    columns_first = in_order((7, 4), [1, 0])
    assert _of_whole_steps(columns_first, tensor) == columns_first, "steps lie side by side"


@pytest.mark.parametrize(
    ("text", "shapes", "runs"),
    [
        ("y[i,j] = x[i,j]", {}, True),
        ("y[j,i] = x[i,j]", {}, True),
        ("y[i,j] = x[i,11-j]", {}, False),
        ("y[i,j] = x[i,j+1]", {"j": 11}, False),
        ("y[i,j] = x[i,2*j]", {"j": 6}, False),
    ],
)
def test_copies_of_whole_dimensions_run_along_blocks(text, shapes, runs):
    dims = [StoredDim(1, 4, 3), StoredDim(0, 1, 3), StoredDim(1, 1, 4)]
    op = operator_of(text, **{"i": 3, "j": 12, "x": (3, 12), **shapes})
    assert runs_along_blocks(op, canonical((3, 12), dims, (0, 0))) == runs
    assert not runs_along_blocks(op, row_major((3, 12)))
