"""Normalisation and the blocks of training against their formulas in 16-bit fixed point: each
product, sum and quotient rounded once and saturated, in the order that the blocks document.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.typing import NDArray

from support.cambricon import launched, layer, saturated
from tilewright.machine import load_machine
from tilewright.targets.cambricon.operations import fixed

MACHINE = load_machine("dla-al")
Elements = NDArray[np.int64]


def elements(seed: int, *shape: int, low: int = -400, high: int = 400) -> Elements:
    return np.random.default_rng(seed).integers(low, high, shape)


def wide(values: NDArray[np.generic]) -> Elements:
    return saturated(values).astype(np.int64)


def mul(a: Elements, b: Elements | int) -> Elements:
    return wide(np.round(a * b / 256))


def div(a: Elements, b: Elements | int) -> Elements:
    return wide(np.round(a * 256 / b))


def power(x: Elements, exponent: int) -> Elements:
    return fixed(np.exp(mul(fixed(np.log(x / 256), 256), exponent) / 256), 256)


def sums_of_neighbours(x: Elements, count: int) -> Elements:
    padding = [(0, 0)] * (x.ndim - 1) + [(count // 2, count - 1 - count // 2)]
    padded, channels = np.pad(x, padding), x.shape[-1]
    total = padded[..., :channels]
    for shift in range(1, count):
        total = wide(total + padded[..., shift : shift + channels])
    return total


LRN = """
.code
@lrn_fp y, x, #{n}, #{alpha}, #192, #512
@lrn_bp dx, dy, x, y, #{n}, #{alpha}, #192, #512
.static_rw
@neuron x, 2, 3, 4, 12, 1, 2, 4, {part}
@neuron y, 2, 3, 4, 12, 1, 2, 4, {part}
@neuron dx, 2, 3, 4, 12, 1, 2, 4, {part}
@neuron dy, 2, 3, 4, 12, 1, 2, 4, {part}
"""


@pytest.mark.parametrize(("n", "part"), [(5, 12), (5, 4), (3, 6), (1, 12), (4, 2)])
def test_normalisation_across_channels(n: int, part: int) -> None:
    x, dy, alpha = elements(n, 2, 3, 4, 12, low=-900, high=900), elements(9, 2, 3, 4, 12), 40
    found = launched(LRN.format(n=n, alpha=alpha, part=part), MACHINE, x=x, dy=dy)
    scale = wide(mul(sums_of_neighbours(mul(x, x), n), alpha) + 512)
    y = div(x, power(scale, 192))
    assert np.array_equal(found.download("y"), y)
    others = mul(sums_of_neighbours(div(mul(dy, y), scale), n), x)
    expected = wide(div(dy, power(scale, 192)) - mul(others, (2 * alpha * 192 + 128) // 256))
    assert np.array_equal(found.download("dx"), expected)


BATCH = """
.code
@bn_fp y, x, gamma, beta, mean, var, #1
@bn_bp dx, dgamma, dbeta, dy, x, gamma, mean, var, #1
.static_rw
@neuron x, 2, 5, 3, 7, 1, 2, 3, {part}
@neuron y, 2, 5, 3, 7, 1, 2, 3, {part}
@neuron dx, 2, 5, 3, 7, 1, 2, 3, {part}
@neuron dy, 2, 5, 3, 7, 1, 2, 3, {part}
@neuron gamma, 1, 1, 1, 7
@neuron beta, 1, 1, 1, 7
@neuron mean, 1, 1, 1, 7
@neuron var, 1, 1, 1, 7
@neuron dgamma, 1, 1, 1, 7
@neuron dbeta, 1, 1, 1, 7
"""


@pytest.mark.parametrize("part", [7, 3])
def test_normalisation_by_statistics_of_a_channel(part: int) -> None:
    x, dy = elements(1, 2, 5, 3, 7), elements(2, 2, 5, 3, 7, low=-90, high=90)
    gamma, beta, mean = elements(3, 7), elements(4, 7), elements(5, 7)
    var = elements(6, 7, low=20, high=900)
    found = launched(
        BATCH.format(part=part), MACHINE, x=x, dy=dy, gamma=gamma, beta=beta, mean=mean, var=var
    )
    inverse = power(var + 1, -128)
    expected = wide(mul(wide(x - mean), mul(gamma, inverse)) + beta)
    assert np.array_equal(found.download("y"), expected)
    normal = mul(wide(x - mean), inverse)
    dgamma, dbeta = np.zeros(7, np.int64), np.zeros(7, np.int64)
    for place in np.ndindex(2, 5, 3):
        dgamma = wide(dgamma + mul(dy[place], normal[place]))
        dbeta = wide(dbeta + dy[place])
    assert np.array_equal(found.download("dgamma").reshape(-1), dgamma)
    assert np.array_equal(found.download("dbeta").reshape(-1), dbeta)
    gradient = wide(wide(dy - div(dbeta, 30 * 256)) - mul(normal, div(dgamma, 30 * 256)))
    assert np.array_equal(found.download("dx"), mul(gradient, mul(gamma, inverse)))


def test_an_activation_is_fused_behind_a_normalisation() -> None:
    fused = "@fuse\n@bn_fp y, x, gamma, beta, mean, var, #1\n@relu_fp r, y\n@endfuse"
    text = f".code\n{fused}{BATCH.partition('var, #1')[2]}@neuron r, 2, 5, 3, 7, 1, 2, 3, 3\n"
    text = re.sub("@bn_bp.*\n", "", text.format(part=3))
    x, var = elements(1, 2, 5, 3, 7), elements(6, 7, low=20, high=900)
    gamma, beta, mean = elements(3, 7), elements(4, 7), elements(5, 7)
    found = launched(text, MACHINE, x=x, gamma=gamma, beta=beta, mean=mean, var=var)
    normal = mul(wide(x - mean), mul(gamma, power(var + 1, -128)))
    assert np.array_equal(found.download("r"), np.maximum(wide(normal + beta), 0))


ACTIVATION = """
.code
@{name}_bp dx, dy, y
.static_rw
@neuron y, 1, 1, 1, 50, 1, 1, 1, {part}
@neuron dx, 1, 1, 1, 50, 1, 1, 1, {part}
@neuron dy, 1, 1, 1, 50, 1, 1, 1, {part}
"""
GRADIENTS = {
    "relu": lambda dy, y: np.where(y > 0, dy, 0),
    "sigmoid": lambda dy, y: mul(dy, wide(y - mul(y, y))),
    "tanh": lambda dy, y: mul(dy, wide(256 - mul(y, y))),
}


@pytest.mark.parametrize("part", [50, 2])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_activations(name: str, part: int) -> None:
    y, dy = elements(0, 50, low=-256, high=256), elements(1, 50)
    found = launched(ACTIVATION.format(name=name, part=part), MACHINE, y=y, dy=dy)
    assert np.array_equal(found.download("dx").reshape(-1), GRADIENTS[name](dy, y))


FULLY_CONNECTED = """
.code
@fc_bp dx, dw, db, dy, x, w
.static_rw
@neuron x, {n}, 1, 1, 11, 1, 1, 1, {si}
@neuron dx, {n}, 1, 1, 11, 1, 1, 1, {si}
@neuron dy, {n}, 1, 1, 9, 1, 1, 1, {so}
@synapse dw, 9, 1, 1, 11, {so}, 1, 1, {si}
@neuron db, 1, 1, 1, 9, 1, 1, 1, {so}
.static_ro
@synapse w, 9, 1, 1, 11, {so}, 1, 1, {si}
"""


@pytest.mark.parametrize(("n", "si", "so"), [(1, 11, 9), (1, 4, 3), (3, 5, 4), (2, 3, 9)])
def test_gradients_of_a_fully_connected_layer(n: int, si: int, so: int) -> None:
    x, dy, w = elements(1, n, 11), elements(2, n, 9), elements(3, 9, 11)
    found = launched(
        FULLY_CONNECTED.format(n=n, si=si, so=so), MACHINE,
        x=x.reshape(n, 1, 1, 11), dy=dy.reshape(n, 1, 1, 9), w=w.reshape(9, 1, 1, 11),
    )  # fmt: skip
    dw, db = np.zeros((9, 11), np.int64), np.zeros(9, np.int64)
    for b in range(n):
        transposed = np.ascontiguousarray(w.T.astype(np.int16))
        dx = layer(transposed, dy[b].astype(np.int16), None, so)
        assert np.array_equal(found.download("dx")[b, 0, 0], dx)
        dw, db = wide(dw + mul(dy[b][:, None], x[b][None, :])), wide(db + dy[b])
    assert np.array_equal(found.download("dw").reshape(9, 11), dw)
    assert np.array_equal(found.download("db").reshape(-1), db)


POOLING = """
.code
@maxpool_fp y, x, #{k}, #{k}, #{s}, #{s}
@maxpool_bp dx, dy, x, y, #{k}, #{k}, #{s}, #{s}
@avgpool_bp da, dy, #{k}, #{k}, #{s}, #{s}
.static_rw
@neuron x, 2, 7, 6, 5, 1, {rows}, 6, 2
@neuron dx, 2, 7, 6, 5, 1, {rows}, 6, 2
@neuron da, 2, 7, 6, 5, 1, {rows}, 6, 2
@neuron y, 2, {oh}, {ow}, 5, 1, {group}, {ow}, 2
@neuron dy, 2, {oh}, {ow}, 5, 1, {group}, {ow}, 2
"""


@pytest.mark.parametrize(("k", "s", "rows"), [(2, 2, 7), (3, 2, 7), (1, 1, 3)])
def test_gradients_of_pooling(k: int, s: int, rows: int) -> None:
    oh, ow = (7 - k) // s + 1, (6 - k) // s + 1
    group = oh if rows == 7 else rows // s
    x, dy = elements(1, 2, 7, 6, 5, low=-9, high=9), elements(2, 2, oh, ow, 5)
    text = POOLING.format(k=k, s=s, rows=rows, oh=oh, ow=ow, group=group)
    found = launched(text, MACHINE, x=x, dy=dy)
    y, largest, mean = found.download("y"), np.zeros_like(x), np.zeros_like(x)
    for row, column in np.ndindex(oh, ow):
        for r, c in np.ndindex(k, k):
            place = (slice(None), row * s + r, column * s + c)
            chosen = np.where(x[place] == y[:, row, column], dy[:, row, column], 0)
            largest[place] = wide(largest[place] + chosen)
            mean[place] = wide(mean[place] + div(dy[:, row, column], k * k * 256))
    assert np.array_equal(found.download("dx"), largest)
    assert np.array_equal(found.download("da"), mean)


CONVOLUTION = """
.code
@conv_bp dx, dw, db, dy, x, w, #{s}, #{s}, #{p}, #{p}
.static_rw
@neuron x, {n}, 6, 5, 4, 1, {rows}, 5, {depth}
@neuron dx, {n}, 6, 5, 4, 1, {rows}, 5, {depth}
@neuron dy, {n}, {oh}, {ow}, 6, 1, 2, {ow}, {part}
@synapse dw, 6, 3, 2, 4, {part}, 3, 2, {depth}
@neuron db, 1, 1, 1, 6, 1, 1, 1, {part}
.static_ro
@synapse w, 6, 3, 2, 4, {part}, 3, 2, {depth}
"""


@pytest.mark.parametrize(
    ("n", "s", "p", "rows", "part", "depth"),
    [(1, 1, 0, 6, 6, 4), (1, 2, 1, 4, 4, 3), (2, 1, 1, 6, 3, 2)],
)
def test_gradients_of_a_convolution(
    n: int, s: int, p: int, rows: int, part: int, depth: int
) -> None:
    oh, ow = (6 + 2 * p - 3) // s + 1, (5 + 2 * p - 2) // s + 1
    x, dy, w = elements(1, n, 6, 5, 4), elements(2, n, oh, ow, 6), elements(3, 6, 3, 2, 4)
    text = CONVOLUTION.format(n=n, s=s, p=p, rows=rows, part=part, depth=depth, oh=oh, ow=ow)
    found = launched(text, MACHINE, x=x, dy=dy, w=w)
    images = np.pad(x, [(0, 0), (p, p), (p, p), (0, 0)])
    dx, dw, db = np.zeros_like(images), np.zeros_like(w), np.zeros(6, np.int64)
    for b, row, column in np.ndindex(n, oh, ow):
        place = (b, slice(row * s, row * s + 3), slice(column * s, column * s + 2))
        gradient = dy[b, row, column]
        dw = wide(dw + mul(gradient[:, None, None, None], images[place][None]))
        db = wide(db + gradient)
    for b, first in np.ndindex(n, -(-6 // part)):
        channels = slice(first * part, (first + 1) * part)
        for row, column in np.ndindex(oh, ow):
            place = (b, slice(row * s, row * s + 3), slice(column * s, column * s + 2))
            product = np.tensordot(dy[b, row, column, channels], w[channels], 1)
            dx[place] = wide(dx[place] + wide(np.round(product / 256)))
    assert np.array_equal(found.download("dx"), dx[:, p : p + 6, p : p + 5])
    assert np.array_equal(found.download("dw"), dw)
    assert np.array_equal(found.download("db").reshape(-1), db)
