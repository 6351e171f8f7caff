"""Units of a divided network: operators with the elementwise steps behind them."""

import numpy as np
import pytest

from tilewright.graph import network
from tilewright.graph.builder import NetworkBuilder
from tilewright.ops import Softmax, add, flatten, gemm, relu
from tilewright.ops.box import Box
from tilewright.partition.layers import _as_convolution, layers_of


def shown(layers):
    return [f"{layer.name}: {' '.join(step.op.kind for step in layer.steps)}" for layer in layers]


def test_lenet5():
    assert shown(layers_of(network("lenet5", 1))) == [
        "c1: conv2d bias tanh",
        "s2: pool2d",
        "c3: conv2d bias tanh",
        "s4: pool2d",
        "c5: conv2d bias tanh",
        "f6: conv2d reshape bias tanh",
        "output: gemm bias",
        "prob: softmax",
    ]


@pytest.mark.parametrize("name", ["alexnet", "vgg16", "resnet50", "yolov2"])
def test_every_layer_reads_what_is_there(name):
    whole = network(name, 2)
    known = {tensor.name for tensor in whole.inputs}
    for layer in layers_of(whole):
        assert set(layer.reads) <= known
        known.add(layer.output)
        assert layer.shape == whole.tensors[layer.output].shape
    assert set(whole.outputs) <= known


def test_what_several_read_ends_a_layer():
    net = NetworkBuilder("fork", "f64")
    x = net.apply(relu((2, 3)), net.input("x", (2, 3)), name="first")
    y = net.apply(relu((2, 3)), x, name="second")
    whole = net.build((net.apply(add((2, 3)), x, y, name="sum"),))
    assert shown(layers_of(whole)) == ["first: relu", "second: relu", "sum: add"]


def test_an_output_of_the_network_ends_a_layer():
    net = NetworkBuilder("seen", "f64")
    x = net.apply(Softmax((2, 3)), net.input("x", (2, 3)), name="first")
    whole = net.build((x, net.apply(relu((2, 3)), x, name="second")))
    assert shown(layers_of(whole)) == ["first: softmax", "second: relu"]


def test_a_product_of_flattened_images_takes_rows_of_them():
    net = NetworkBuilder("head", "f64")
    x = net.apply(flatten((2, 3, 4, 5)), net.input("x", (2, 3, 4, 5)), name="flat")
    op = gemm(2, 7, 60, transpose_b=True)
    whole = net.build((net.apply(op, x, net.weight("w", (7, 60)), name="fc"),))
    (layer,) = layers_of(whole)
    assert (layer.shape, layer.op.terms) == ((2, 7), (3, 4, 5))
    (summed, _) = layer.regions(Box.of((0, 2), (2, 4)))
    rows = Box.of((0, 3), (1, 2), (0, 5))
    assert layer.needed(summed, rows) == [("x", Box.of((0, 2), (0, 3), (1, 2), (0, 5)))]
    assert list(layer.weights(summed, rows, Box.of((0, 2), (2, 4)))) == [
        ("w", Box.of((2, 4), (0, 3), (1, 2), (0, 5)))
    ]
    x, w = (np.arange(120.0).reshape(2, 3, 4, 5), np.arange(420.0).reshape(7, 60))
    expected = whole.evaluate({"x": x, "w": w})["fc"]
    found = layer.steps[1].op.reference(layer.op.reference(x, w.reshape(7, 3, 4, 5)))
    np.testing.assert_array_equal(found, expected)


def test_only_images_that_a_product_takes_one_by_one_are_its_convolution():
    op = gemm(2, 5, 24, transpose_b=True)
    assert _as_convolution(op, (2, 4, 2, 3)).out_shape == (2, 5, 1, 1)
    others = (gemm(2, 5, 24), gemm(2, 5, 24, transpose_b=True, alpha=2.0))
    assert [_as_convolution(one, (2, 4, 2, 3)) for one in others] == [None, None]
    for shape in ((2, 24), (1, 4, 4, 3), (2, 4, 6)):
        assert _as_convolution(op, shape) is None
