"""Any region of a result is computed from what the operator says it needs, and from no more."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tilewright import ops
from tilewright.common.errors import ShapeError
from tilewright.ops.box import Box
from tilewright.ops.definitions import Assembly, Named
from tilewright.ops.gemm import batched_matmul
from tilewright.ops.piece import operator_piece

small = st.integers(1, 4)
flags = st.booleans()


def pairs(low, high):
    return st.tuples(st.integers(low, high), st.integers(low, high))


def convolution(batch, groups, inputs, outputs, image, kernel, stride, padding, dilation, dtype):
    return ops.conv2d(
        batch=batch, in_channels=groups * inputs, out_channels=groups * outputs,
        height=image[0], width=image[1], kernel=kernel, stride=stride, padding=padding,
        dilation=dilation, groups=groups, dtype=dtype,
    )  # fmt: skip


paddings = st.tuples(*[st.integers(0, 3)] * 4)
convolutions = st.builds(
    convolution, small, small, small, small, pairs(5, 9), pairs(1, 3), pairs(1, 3), paddings,
    pairs(1, 2), st.sampled_from(["f64", "i16:i32:i16"]),
)  # fmt: skip
products = st.one_of(
    st.builds(ops.gemm, small, small, small, transpose_a=flags, transpose_b=flags),
    st.builds(ops.gemm, small, small, small, beta=st.sampled_from([0.0, 2.0])),
    st.builds(batched_matmul, small, small, small, small, transpose_a=flags, transpose_b=flags),
)


@st.composite
def pools(draw):
    kernel, padding = draw(pairs(1, 3)), draw(st.tuples(*[st.integers(0, 2)] * 4))
    shape = (2, 3, *draw(pairs(3, 9)))
    reduction = draw(st.sampled_from(["max", "average"]))
    stride, modes = draw(pairs(1, 3)), (draw(flags), draw(flags))
    try:
        return ops.Pool2d(reduction, *shape, kernel, stride, padding, *modes)
    except ShapeError:
        assume(False)


shapes = st.lists(small, min_size=2, max_size=4).map(tuple)
reshapes = st.sampled_from(
    [((2, 3, 4, 5), (2, 60)), ((2, 60), (2, 3, 4, 5)), ((4, 6), (3, 8)), ((2, 3, 4), (6, 4))]
)


def sliced(shape, step):
    """Every `step`-th element from the last possible start on."""
    counts = tuple(-(-n // step) for n in shape)
    starts = tuple(n - 1 - (count - 1) * step for n, count in zip(shape, counts, strict=True))
    return ops.Slice(shape, starts, counts, (step,) * len(shape))


others = st.one_of(
    pools(),
    shapes.map(ops.relu),
    shapes.map(lambda shape: ops.add(shape, (*shape[:-1], 1))),
    shapes.map(lambda shape: ops.add(shape[1:], shape)),
    shapes.map(ops.Bias),
    shapes.map(ops.BatchNorm),
    shapes.map(ops.Softmax),
    shapes.map(lambda shape: ops.LocalResponseNorm(shape, 3)),
    shapes.map(lambda shape: ops.Concat((shape, (shape[0], 3, *shape[2:]), shape))),
    reshapes.map(lambda both: ops.Reshape(*both)),
    shapes.map(lambda shape: ops.Transpose(shape, (*range(1, len(shape)), 0))),
    shapes.map(lambda shape: ops.Pad(shape, (0, 1, *[2] * (len(shape) - 2)), (0,) * len(shape), 3)),
    shapes.map(lambda shape: ops.Resize(shape, (1, 3, *[2] * (len(shape) - 2)))),
    shapes.map(lambda shape: ops.Reduce("mean", shape, (0, len(shape) - 1))),
    st.builds(sliced, shapes, st.integers(1, 3)),
    st.builds(ops.SpaceToDepth, small, small, st.just(6), st.just(4), st.just(2)),
    shapes.map(lambda shape: ops.Shuffle((shape[0], 9, *shape[2:]), 1, 3, 1, 2)),
)


def operands_of(op):
    kinds = [kind.numpy for kind in op.numerics.operands]
    return tuple(
        np.random.default_rng(i).integers(1, 9, shape).astype(kind)
        for i, (shape, kind) in enumerate(zip(op.input_shapes, kinds, strict=True))
    )


@st.composite
def boxes(draw, shape):
    stops = [draw(st.integers(1, extent)) for extent in shape]
    return Box.of(*((draw(st.integers(0, stop - 1)), stop) for stop in stops))


@given(st.one_of(convolutions, products, others), st.data())
def test_a_region_of_the_result_is_computed_from_what_it_needs(op, data):
    result = data.draw(boxes(op.out_shape))
    operands = operands_of(op)
    found = operator_piece(op, result)
    assert found.result.covers(result)
    assert found.op.input_shapes == tuple(box.shape for box in found.operands if box.size)
    computed = found.op.reference(*found.take(operands))
    np.testing.assert_array_equal(computed, op.reference(*operands)[found.result.slices])


@given(st.one_of(convolutions, products, others), st.data())
def test_an_unchanged_dimension_has_the_interval_that_it_follows(op, data):
    assume(op.follows is not None)
    result, terms = (data.draw(boxes(shape)) for shape in (op.out_shape, op.terms))
    computed = op.computable(result, terms if op.terms else None)
    found = (computed, *op.needed(computed, terms if op.terms else None))
    for which, dimension in op.unchanged:
        own, term = op.follows[which][dimension]
        if own is not None:
            assert found[which].sides[dimension] == result.sides[own]
        elif term is not None:
            assert found[which].sides[dimension] == terms.sides[term]


def classes_below(kind):
    return {kind}.union(*map(classes_below, kind.__subclasses__()))


def test_operators_that_compute_more_than_was_asked_are_among_those_above():
    """One of a new class has to be drawn, too: what it leaves unchanged is restated by hand."""
    own = {kind for kind in classes_below(Named) - {Named} if "computable" in vars(kind)}
    drawn = (ops.Conv2d, ops.Pool2d, ops.Softmax, ops.LocalResponseNorm, ops.Reshape, ops.Pad,
             ops.Resize, ops.Shuffle, ops.SpaceToDepth)  # fmt: skip
    assert own == {*drawn, Assembly}  # an assembly follows no dimension


@given(st.one_of(convolutions, products, others))
@example(ops.Concat(((1, 2, 4), (1, 3, 4), (1, 1, 4))))
def test_dimensions_of_the_result_and_of_each_operand_are_followed(op):
    assume(op.follows is not None)
    shapes = (op.out_shape, *op.input_shapes)
    assert [len(follows) for follows in op.follows] == [len(shape) for shape in shapes]


@given(others)
def test_what_sums_no_products_has_no_terms(op):
    assert op.terms == ()


@given(st.one_of(convolutions, products), st.data())
def test_pieces_of_the_sums_add_up(op, data):
    assume(op.terms)
    cut = data.draw(st.integers(0, len(op.terms) - 1))
    at = data.draw(st.integers(0, op.terms[cut]))
    whole = Box.whole(op.terms)
    parts = [whole.along(cut, (0, at)), whole.along(cut, (at, op.terms[cut]))]
    terms = [part for part in parts if part.size]
    result = Box.whole(op.out_shape)
    assume(all(op.computable(result, part) == result for part in terms))
    operands = operands_of(op)
    found = [operator_piece(op, result, part) for part in terms]
    total = sum(one.op.reference(*one.take(operands)) for one in found)
    if not op.numerics.is_float:
        total = op.numerics.write_back(np.asarray(total, np.int64))
    np.testing.assert_array_equal(total, op.reference(*operands))


POOLED_BEYOND = ops.max_pool2d((1, 1, 6, 6), 3, stride=2, ceil_mode=True)
"""The third window of a side has two places, and beyond."""


@pytest.mark.parametrize(
    ("op", "asked", "computed"),
    [
        (ops.Softmax((4, 8)), Box.of((1, 2), (3, 5)), Box.of((1, 2), (0, 8))),
        (ops.flatten((1, 5, 2, 3)), Box.of((0, 1), (7, 14)), Box.of((0, 1), (6, 18))),
        (
            ops.conv2d(
                batch=1, in_channels=4, out_channels=6, height=5, width=5, kernel=3, groups=2
            ),
            Box.of((0, 1), (2, 4), (0, 1), (0, 1)),
            Box.of((0, 1), (0, 6), (0, 1), (0, 1)),
        ),
        (
            ops.conv2d(
                batch=1, in_channels=1, out_channels=1, height=2, width=2, kernel=1, padding=2
            ),
            Box.of((0, 1), (0, 1), (0, 1), (5, 6)),
            Box.of((0, 1), (0, 1), (0, 3), (3, 6)),
        ),
        (
            POOLED_BEYOND,
            Box.of((0, 1), (0, 1), (2, 3), (1, 2)),
            Box.of((0, 1), (0, 1), (1, 3), (1, 2)),
        ),
        (
            POOLED_BEYOND,
            Box.of((0, 1), (0, 1), (1, 2), (0, 2)),
            Box.of((0, 1), (0, 1), (1, 2), (0, 2)),
        ),
    ],
    ids=[
        "whole vectors",
        "whole images of a channel",
        "whole groups",
        "pixels of the image",
        "a window beyond the end",
        "a window inside",
    ],
)
def test_what_no_operator_computes_alone_grows(op, asked, computed):
    assert operator_piece(op, asked).result == computed


def test_the_halo_of_a_tile():
    op = ops.conv2d(
        batch=1, in_channels=8, out_channels=4, height=28, width=28, kernel=3, padding=1
    )
    images, weights = op.needed(Box.of((0, 1), (0, 2), (0, 2), (8, 16)))
    assert images == Box.of((0, 1), (0, 8), (0, 3), (7, 17))
    assert weights == Box.of((0, 2), (0, 8), (0, 3), (0, 3))


@given(boxes((4, 5, 6)), boxes((4, 5, 6)))
def test_what_a_box_has_without_another(one, other):
    counts = np.zeros((4, 5, 6), int)
    for part in one.without(other):
        counts[part.slices] += 1
    expected = np.zeros((4, 5, 6), int)
    expected[one.slices] = 1
    expected[other.slices] = 0
    np.testing.assert_array_equal(counts, expected)
