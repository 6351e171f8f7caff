"""Pooling, elementwise, shaping and normalising operators against plain formulas."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilewright import ops
from tilewright.common.errors import ShapeError
from tilewright.ops.definitions import pointwise


def integers(shape, seed=0):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(float)


# --- pooling ---------------------------------------------------------------------------------


def plain_pool(op, x):
    """Window by window: the pixels inside the image, and the padding where it counts."""
    result = np.empty(op.out_shape)
    top, left, bottom, right = op.padding
    for row in range(op.out_shape[2]):
        for column in range(op.out_shape[3]):
            r, c = row * op.stride[0] - top, column * op.stride[1] - left
            window = x[:, :, max(r, 0) : r + op.kernel[0], max(c, 0) : c + op.kernel[1]]
            if op.reduction == "max":
                result[:, :, row, column] = window.max(axis=(2, 3))
                continue
            height = min(r + op.kernel[0], op.height + bottom) - r
            width = min(c + op.kernel[1], op.width + right) - c
            count = height * width if op.count_padding else window.shape[2] * window.shape[3]
            result[:, :, row, column] = window.sum(axis=(2, 3)) / count
    return result


@given(
    reduction=st.sampled_from(["max", "average"]),
    image=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    ceil_mode=st.booleans(), count_padding=st.booleans(),
)  # fmt: skip
def test_pooling(reduction, image, kernel, stride, padding, ceil_mode, count_padding):
    for axis in (0, 1):
        assume(kernel[axis] <= image[axis] + padding[axis] + padding[axis + 2])
        assume(max(padding[axis], padding[axis + 2]) < kernel[axis])
    op = ops.Pool2d(reduction, 2, 3, *image, kernel, stride, padding, ceil_mode, count_padding)
    x = integers(op.input_shapes[0])
    assert np.array_equal(op.reference(x), plain_pool(op, x))


def test_known_pooled_shapes():
    assert ops.max_pool2d((1, 64, 112, 112), 3, stride=2, padding=1).out_shape == (1, 64, 56, 56)
    assert ops.max_pool2d((1, 96, 55, 55), 3, stride=2).out_shape == (1, 96, 27, 27)
    assert ops.max_pool2d((1, 1, 6, 6), 3, stride=2, ceil_mode=True).out_shape == (1, 1, 3, 3)
    for image in (4, 5):  # a third window would begin in the padding behind the image
        pool = ops.max_pool2d((1, 1, image, 6), 2, stride=3, padding=1, ceil_mode=True)
        assert pool.out_shape == (1, 1, 2, 3)
    assert ops.max_pool2d((1, 1, 7, 7), 3, stride=2, ceil_mode=True).out_shape == (1, 1, 3, 3)
    sides = ops.Pool2d("max", 1, 1, 4, 4, (3, 3), (1, 1), (0, 1, 2, 0))
    assert sides.out_shape == (1, 1, 4, 3)
    assert ops.global_average_pool2d((2, 5, 7, 7)).out_shape == (2, 5, 1, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ops.max_pool2d((1, 3, 4, 4), 5),
            "pool2d: kernel height 5 is larger than the padded input height 4 = 4 + 0 + 0",
        ),
        (
            lambda: ops.max_pool2d((1, 3, 4, 4), 2, padding=2),
            "pool2d: with padding (2, 2, 2, 2), kernel (2, 2) and stride (2, 2) a window lies in "
            "the padding alone",
        ),
        (
            lambda: ops.max_pool2d((3, 4, 4), 2),
            "pool2d: expected images of 4 dimensions, found 3: (3, 4, 4)",
        ),
        (
            lambda: ops.Pool2d("sum", 1, 1, 4, 4, (2, 2), (2, 2)),
            "pool2d: reduction must be 'max' or 'average', found 'sum'",
        ),
    ],
)
def test_refused_pooling(make, message):
    with pytest.raises(ShapeError) as refusal:
        make()
    assert str(refusal.value) == message


# --- elementwise -----------------------------------------------------------------------------

FORMULAS = {
    "abs": abs,
    "ceil": np.ceil,
    "clip": lambda x: min(max(x, -1.5), 0.5),
    "elu": lambda x: x if x >= 0 else -1.5 * (np.exp(x) - 1),
    "exp": np.exp,
    "floor": np.floor,
    "hard_sigmoid": lambda x: min(max(-1.5 * x + 0.5, 0), 1),
    "identity": lambda x: x,
    "leaky_relu": lambda x: x if x >= 0 else -1.5 * x,
    "log": np.log,
    "neg": lambda x: -x,
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: x if x > 0 else 0,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": lambda x: int(x > 0) - int(x < 0),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}


@pytest.mark.parametrize("function", FORMULAS)
def test_unary(function):
    x = np.array([0.25, 0.5, 3.0] if function in ("log", "sqrt") else [-2.0, -0.25, 0.5, 3.0])
    op = ops.Unary(function, x.shape, alpha=-1.5, beta=0.5)
    expected = [FORMULAS[function](value) for value in x]
    assert np.allclose(op.reference(x), expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("function", ["add", "div", "max", "min", "mul", "sub"])
def test_binary_broadcasts(function):
    op = ops.Binary(function, (2, 3, 4), (3, 1))
    a, b = integers((2, 3, 4)), integers((3, 1), 1) + 20
    formulas = {
        "add": lambda p, q: p + q,
        "div": lambda p, q: p / q,
        "max": max,
        "min": min,
        "mul": lambda p, q: p * q,
        "sub": lambda p, q: p - q,
    }
    expected = [
        [[formulas[function](a[i, j, k], b[j, 0]) for k in range(4)] for j in range(3)]
        for i in range(2)
    ]
    assert np.array_equal(op.reference(a, b), expected)
    assert op.flops == 24


def test_bias_adds_one_number_per_channel():
    x, bias = integers((2, 3, 4, 4)), np.array([1.0, 2.0, 3.0])
    result = ops.Bias((2, 3, 4, 4), scale=2.0).reference(x, bias)
    assert np.array_equal(result[:, 2] - x[:, 2], np.full((2, 4, 4), 6.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ops.add((2, 3), (4,)),
            "add: shapes 2x3 and 4 cannot be broadcast together",
        ),
        (
            lambda: ops.Binary("exp", (2,), (2,)),
            "unknown elementwise function 'exp'; known: add, div, fmod, max, min, mul, pow, prelu, "
            "sub",
        ),
        (lambda: ops.relu((2, 0)), "relu: shape must have positive integer extents, found (2, 0)"),
        (lambda: ops.Bias((2, 3), axis=2), "bias: axis must be in 0..1, found 2"),
    ],
)
def test_refused_elementwise(make, message):
    with pytest.raises(ShapeError) as refusal:
        make()
    assert str(refusal.value) == message


# --- shaping ---------------------------------------------------------------------------------


def test_flatten_and_reshape_keep_the_order():
    x = integers((2, 3, 4))
    assert np.array_equal(ops.flatten((2, 3, 4)).reference(x), x.reshape(2, 12))
    assert np.array_equal(ops.Reshape((2, 3, 4), (6, 4)).reference(x), x.reshape(6, 4))


def test_concat_joins_channels():
    a, b = integers((2, 3, 4)), integers((2, 5, 4))
    op = ops.Concat((a.shape, b.shape))
    assert op.out_shape == (2, 8, 4)
    assert np.array_equal(op.reference(a, b), np.concatenate([a, b], axis=1))


def test_space_to_depth_takes_every_other_pixel():
    x = integers((2, 3, 4, 6))
    result = ops.SpaceToDepth(2, 3, 4, 6, 2).reference(x)
    assert result.shape == (2, 12, 2, 3)
    assert np.array_equal(result[:, 3:6], x[:, :, ::2, 1::2])


def test_shuffle_is_a_slice_of_a_reshape_a_transpose_and_a_reshape():
    x = integers((2, 12, 5))
    shuffled = x.reshape(2, 3, 4, 5).transpose(0, 2, 1, 3).reshape(2, 12, 5)
    assert np.array_equal(ops.Shuffle(x.shape, 1, 3, 0, 4).reference(x), shuffled)
    assert np.array_equal(ops.Shuffle(x.shape, 1, 3, 1, 2).reference(x), shuffled[:, 3:9])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ops.Shuffle((2, 6), 1, 2, 2, 2),
            "shuffle: 2 elements from 2 on do not lie in each of 2 equal parts of 6",
        ),
        (
            lambda: ops.Reshape((2, 3), (7,)),
            "reshape: 2x3 has 6 elements, 7 has 7",
        ),
        (
            lambda: ops.Concat(((2, 3), (3, 3))),
            "concat: shapes 2x3, 3x3 differ in more than axis 1",
        ),
        (lambda: ops.Concat(()), "concat: needs at least one tensor"),
        (
            lambda: ops.SpaceToDepth(1, 1, 5, 4, 2),
            "space_to_depth: block = 2 does not divide height = 5",
        ),
    ],
)
def test_refused_shaping(make, message):
    with pytest.raises(ShapeError) as refusal:
        make()
    assert str(refusal.value) == message


# --- normalising -----------------------------------------------------------------------------


def test_largest_and_smallest_skip_what_is_no_number():
    x = np.array([[3.0, np.nan, 1.0], [np.nan, np.nan, np.nan], [-np.inf, -np.inf, -np.inf]])
    largest, smallest = (ops.Reduce(f, x.shape, (1,)).reference(x) for f in ("max", "min"))
    np.testing.assert_array_equal(largest, [[3], [-np.inf], [-np.inf]])
    np.testing.assert_array_equal(smallest, [[1], [np.inf], [-np.inf]])


def test_softmax_sums_to_one_for_any_size_of_numbers():
    x = np.array([[1000.0, 1001.0], [-1000.0, -1002.0]])
    result = ops.Softmax((2, 2)).reference(x)
    tail = 1 / (1 + np.exp([1.0, 2.0]))
    assert np.allclose(result, [[tail[0], 1 - tail[0]], [1 - tail[1], tail[1]]], rtol=1e-14)


def test_batch_norm_gives_its_own_statistics_back():
    x = integers((8, 3, 4, 4))
    mean, variance = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
    scale, bias = np.array([1.0, 2.0, 3.0]), np.array([-1.0, 0.0, 1.0])
    op = ops.BatchNorm(x.shape, epsilon=0.0)
    result = op.reference(x, scale, bias, mean, variance)
    assert np.allclose(result.mean(axis=(0, 2, 3)), bias)
    assert np.allclose(result.std(axis=(0, 2, 3)), scale)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_local_response_norm_sums_the_neighbours(size):
    x = integers((2, 7, 3, 3))
    result = ops.LocalResponseNorm(x.shape, size, alpha=0.5, beta=0.75, bias=2.0).reference(x)
    for channel in range(7):
        first = max(0, channel - (size - 1) // 2)
        last = min(7, channel + size // 2 + 1)
        total = (x[:, first:last] ** 2).sum(axis=1)
        expected = x[:, channel] / (2.0 + 0.5 / size * total) ** 0.75
        assert np.allclose(result[:, channel], expected, rtol=1e-14)


def test_what_lies_beside_the_result_is_computed_element_by_element():
    assert pointwise(ops.Binary("add", (2, 3, 4), (3, 1))) is not None
    assert pointwise(ops.Slice((2, 3), (1, 0), (1, 3), (1, 1))) is None
