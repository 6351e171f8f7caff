"""Stages behind a reshape, whose tensor has another number of dimensions than before it."""

import numpy as np
import pytest

from support.networks import numbers_for
from support.plans import GROUP, quick_search
from tilewright.graph.builder import NetworkBuilder
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.ops import Binary, Reduce, Reshape, Transpose, Unary, conv2d, flatten, relu


def flattened_convolution(net):
    op = conv2d(batch=1, in_channels=3, out_channels=4, height=6, width=6, kernel=3)
    y = net.apply(op, net.input("x", (1, 3, 6, 6)), net.weight("w", (4, 3, 3, 3)), name="c")
    y = net.apply(flatten((1, 4, 4, 4)), y, name="f")
    return net.apply(relu((1, 64)), y, name="r")


def shuffled_channels(net):
    y = net.apply(Reshape((2, 6, 2, 2), (2, 2, 3, 2, 2)), net.input("x", (2, 6, 2, 2)), name="a")
    y = net.apply(Transpose((2, 2, 3, 2, 2), (0, 2, 1, 3, 4)), y, name="t")
    y = net.apply(Reshape((2, 3, 2, 2, 2), (2, 6, 2, 2)), y, name="b")
    return net.apply(relu((2, 6, 2, 2)), y, name="r")


def largest_of_channels(net):
    y = net.apply(Transpose((1, 5, 3, 4), (0, 2, 3, 1)), net.input("x", (1, 5, 3, 4)), name="t")
    y = net.apply(Reduce("max", (1, 3, 4, 5), (1,)), y, name="m")
    y = net.apply(Reshape((1, 1, 4, 5), (1, 4, 5)), y, name="f")
    return net.apply(Unary("sigmoid", (1, 4, 5)), y, name="s")


def reshaped_weight(net):
    y = net.apply(Reshape((2, 6), (2, 3, 2)), net.weight("w", (2, 6)), name="f")
    return net.apply(Binary("add", (2, 3, 2), (2, 3, 2)), net.input("x", (2, 3, 2)), y, name="a")


@pytest.mark.parametrize(
    "made", [flattened_convolution, shuffled_channels, largest_of_channels, reshaped_weight]
)
def test_elementwise_operators_follow_a_reshape(made):
    builder = NetworkBuilder(made.__name__, "f64")
    net = builder.build((made(builder),))
    plan = build_plan(net, GROUP, quick_search(net))
    weights, inputs = numbers_for(net)
    found = interpret_plan(plan, inputs, weights)
    for name, expected in net.evaluate({**inputs, **weights}).items():
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-11)
