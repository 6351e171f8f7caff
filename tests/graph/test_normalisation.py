"""Normalisations go into the weights of the products before them; the results stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from support.examples import examples
from support.networks import TOLERANCE, networks, numbers_for
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.graph import Network
from tilewright.graph.rewrites.constants import WithAhead, without_ahead
from tilewright.graph.rewrites.normalisation import folded_normalisation
from tilewright.ops import BatchNorm, Bias, conv2d, gemm

SHAPE = (2, 6, 5, 5)


def norm(net: NetworkBuilder, x: str, name: str) -> str:
    op = BatchNorm(net.shape(x), dtype=net.dtype)
    words = ("scale", "shift", "mean", "variance")
    weights = [net.weight(f"{name}_{w}", op.input_shapes[1]) for w in words]
    return net.apply(op, x, *weights, name=name)


def biased(net: NetworkBuilder, x: str, name: str) -> str:
    op = Bias(net.shape(x), 1, dtype=net.dtype)
    return net.apply(op, x, net.weight(f"{name}_w", (net.shape(x)[1],)), name=name)


def convolved(*, known: bool = True) -> Network:
    net = NetworkBuilder("net", "f64")
    op = conv2d(
        batch=2, in_channels=4, out_channels=6, height=5, width=5, kernel=3, padding=1, groups=2
    )  # fmt: skip
    x, given = net.input("x", op.input_shapes[0]), net.weight if known else net.input
    y = net.apply(op, x, given("w", op.input_shapes[1]), name="c")
    y = norm(net, biased(net, y, "b"), "n")
    return net.build((biased(net, norm(net, y, "m"), "last"),))


def assert_computes_the_same(before: Network) -> Network:
    after, ahead = without_ahead(folded_normalisation(before))
    weights, inputs = numbers_for(before)
    found = after.evaluate({**inputs, **dict(WithAhead(weights, ahead))})
    for name, expected in before.evaluate({**weights, **inputs}).items():
        scale = max(1.0, float(np.abs(expected).max()))
        tolerance = TOLERANCE[before.inputs[0].dtype] * scale
        np.testing.assert_allclose(found[name], expected, 0, tolerance)
    return after


@pytest.mark.hypothesis
def test_the_results_of_random_networks_stay() -> None:
    @examples(25)
    @given(networks())
    def check(network: Network) -> None:
        assert_computes_the_same(network)

    check()


def test_biases_and_normalisations_of_a_product_become_one_bias() -> None:
    after = assert_computes_the_same(convolved())
    assert [(n.name, n.op.kind) for n in after.nodes] == [
        ("c", "conv2d"),
        ("m", "bias"),
        ("last", "bias"),
    ]


@pytest.mark.parametrize("transpose_b", [False, True])
def test_columns_of_a_matrix_product_are_its_channels(transpose_b: bool) -> None:
    net = NetworkBuilder("net", "f64")
    op = gemm(3, 5, 4, transpose_b=transpose_b)
    x, w = net.input("x", op.input_shapes[0]), net.weight("w", op.input_shapes[1])
    y = norm(net, net.apply(op, x, w, name="p"), "n")
    after = assert_computes_the_same(net.build((y,)))
    assert [n.op.kind for n in after.nodes] == ["gemm", "bias"]


def test_a_product_by_computed_weights_is_left_alone() -> None:
    given = convolved(known=False)
    assert folded_normalisation(given) is given
