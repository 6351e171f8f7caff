"""Lowering of operators to stages: whose form a result takes, and where its parts lie."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tilewright.graph.graph import Node
from tilewright.network.planning.form import StoredDim, canonical, row_major
from tilewright.network.planning.lowering import (
    _followed,
    _of_whole_steps,
    _Stages,
    runs_along_blocks,
)
from tilewright.network.planning.memory import PlannedMemory, in_order
from tilewright.ops import LocalResponseNorm, Op, Softmax, relu
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


def stages_of(op: Op, orders: Sequence[Sequence[int]], **options: bool) -> _Stages:
    """The stages of an operator whose operands lie in these orders of dimensions."""
    memory, names = PlannedMemory("f64", **options), [f"x{n}" for n in range(len(orders))]
    for name, shape, order in zip(names, op.input_shapes, orders, strict=True):
        memory.held[name] = [memory.value(name, in_order(shape, order))]
    return _Stages(memory, Node("y", op, tuple(names), "y"))


@pytest.mark.parametrize(
    ("text", "orders", "order"),
    [
        ("y[n,c,i] = x[n,c,i] - z[n,c,i]", [(0, 2, 1), (0, 1, 2)], (0, 2, 1)),
        ("y[n,c,i] = x[n,c,i] - z[0,0,i]", [(0, 1, 2), (0, 2, 1)], ()),
        ("y[n,c,i] = x[n,c,i] - z[c]", [(0, 2, 1), (0,)], ()),
        ("y[n,c,i] += x[n,c,i] * z[n,c,i]", [(0, 2, 1), (0, 1, 2)], ()),
    ],
)
def test_maps_of_whole_tensors_take_them_in_the_order_of_the_first_of_the_largest(
    text, orders, order
):
    """An axis of one index, which no dimension in memory tells, is the outermost."""
    op = operator_of(text, n=1, c=3, i=4)
    aligned, apart = (stages_of(op, orders, aligned=value) for value in (True, False))
    assert aligned._common_order(op.definitions[-1]) == order
    assert apart._common_order(op.definitions[-1]) == ()


@pytest.mark.parametrize(
    "op",
    [
        relu((2, 3)),
        Softmax((2, 8), 1),
        LocalResponseNorm((1, 8, 2, 2), 3),
        operator_of("y[i] += x[i,j] * x[i,j]", i=3, j=4),
    ],
    ids=str,
)
def test_stages_count_the_operations_of_their_operator_once(op):
    stages = stages_of(op, [range(len(shape)) for shape in op.input_shapes])
    stages.all()
    assert sum(draft.heading.flops for draft in stages.memory.drafts) == op.flops
