"""Scattered sums as definitions: together they are the sums, and multiply no zero."""

import numpy as np
import pytest

from tilewright.ops.access import Access, straight
from tilewright.ops.gradient import scattered as phases


def scattered(x, w, shape, stride, padding, dilation):
    """A transposed convolution, product by product."""
    y = np.zeros(shape)
    for r, c, u, v in np.ndindex(*x.shape[1:], *w.shape[2:]):
        row, col = (s * i + d * k - p for s, i, d, k, p in zip(
            stride, (r, c), dilation, (u, v), padding, strict=True))  # fmt: skip
        if 0 <= row < shape[1] and 0 <= col < shape[2]:
            y[:, row, col] += np.einsum("i,io->o", x[:, r, c], w[:, :, u, v])
    return y


@pytest.mark.parametrize("seed", range(40))
def test_a_transposed_convolution_is_its_phases(seed):
    rng = np.random.default_rng(seed)
    i, o = map(int, rng.integers(1, 4, 2))
    image, kernel = (tuple(map(int, rng.integers(2, n, 2))) for n in (8, 5))
    stride, dilation = (tuple(map(int, rng.integers(1, 4, 2))) for _ in range(2))
    kernel = tuple(min(k, n) for k, n in zip(kernel, image, strict=True))
    padding = tuple(map(int, rng.integers(0, 3, 2)))
    sides = zip(image, kernel, stride, dilation, padding, strict=True)
    shape = (o, *(max(1, (n - 1) * s + (k - 1) * d + 1 - 2 * p) for n, k, s, d, p in sides))
    places = (((0, 1),), ((1, stride[0]), (3, dilation[0])), ((2, stride[1]), (4, dilation[1])))
    result = Access(shape, places, (0, -padding[0], -padding[1]))
    x, w = straight((i, *image), (5, 1, 2)), straight((i, o, *kernel), (5, 0, 3, 4))
    found = phases((o, *image, *kernel, i), result, (x, w))
    operands = [rng.integers(-3, 4, a.shape).astype(float) for a in (x, w)]
    parts = [part.reference(*operands) for part in found]
    assert (np.count_nonzero(parts, axis=0) <= 1).all()
    expected = scattered(*operands, shape, stride, padding, dilation)
    assert np.array_equal(sum(parts, np.zeros(shape)), expected)


def test_a_place_of_three_axes_is_solved():
    """y[r+u+v] += x[r] * w[u,v], product by product."""
    result = Access((7,), (((0, 1), (1, 1), (2, 1)),), (0,))
    x, w = np.arange(1.0, 5), np.arange(1.0, 7).reshape(3, 2)
    found = phases((4, 3, 2), result, (straight((4,), (0,)), straight((3, 2), (1, 2))))
    expected = np.zeros(7)
    for r, u, v in np.ndindex(4, 3, 2):
        expected[r + u + v] += x[r] * w[u, v]
    assert np.array_equal(sum(part.reference(x, w) for part in found), expected)
