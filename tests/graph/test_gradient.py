"""Gradients of networks: against central differences, of every operator, and of gradients."""

import numpy as np
import pytest

import tilewright as tw
from support.random_operators import random_operator
from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.gradient import with_gradients
from tilewright.ops import Reshape, Unary, average_pool2d, conv2d, gemm, max_pool2d
from tilewright.ops.lookup import lookup
from tilewright.ops.op import Op

STEP = 1e-5
SMOOTH = ("gemm", "batched_matmul", "conv2d", "pool2d", "reduce", "unary", "binary", "bias",
          "batch_norm", "softmax", "local_response_norm", "transpose", "pad", "slice", "resize",
          "space_to_depth", "concat", "reshape")  # fmt: skip
ROUGH = ("ceil", "floor", "round", "trunc", "sign")
BOUNDED = ("acos", "asin", "atanh", "acosh", "log", "log1p", "sqrt", "reciprocal", "div", "pow",
           "tan", "fmod")  # fmt: skip


def summed(op: Op):
    """A network of one operator and the sum of its result weighted by an input `g`."""
    net = NetworkBuilder("one", "f64")
    inputs = [net.input(f"x{i}", shape) for i, shape in enumerate(op.input_shapes)]
    g = net.input("g", op.out_shape)
    y = net.apply(op, *inputs, name="y")
    axes = ",".join(f"a{d}" for d in range(len(op.out_shape)))
    total = tw.define(f"loss[0] += y[{axes}] * g[{axes}]", y=op.out_shape, g=op.out_shape)
    return net.build((net.apply(total, y, g, name="loss"),)), inputs


def differences(network, feeds, name, loss="loss"):
    """The gradient by central differences."""
    found = np.zeros(feeds[name].shape)
    for place in np.ndindex(found.shape):
        beside = []
        for change in (STEP, -STEP):
            moved = {**feeds, name: feeds[name].copy()}
            moved[name][place] += change
            beside.append(network.evaluate(moved)[loss].sum())
        found[place] = (beside[0] - beside[1]) / (2 * STEP)
    return found


def floats(op):
    """The operator in double precision, of functions that are smooth and defined everywhere."""
    return op.dtype == "f64" and getattr(op, "function", "") not in (*ROUGH, *BOUNDED)


@pytest.mark.parametrize("kind", SMOOTH)
@pytest.mark.parametrize("seed", range(3))
def test_every_operator_has_the_gradient_of_central_differences(kind, seed):
    rng = np.random.default_rng(seed)
    op = random_operator(rng, kind)
    while not floats(op):
        op = random_operator(rng, kind)
    network, inputs = summed(op)
    shapes = {t.name: t.shape for t in network.inputs}
    feeds = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    if kind == "batch_norm":
        feeds["x4"] = np.abs(feeds["x4"]) + 0.5
    whole, named = with_gradients(network, "loss", inputs)
    found = whole.evaluate(feeds)
    for name in inputs:
        expected = differences(network, feeds, name)
        assert np.allclose(found[named[name]], expected, rtol=1e-5, atol=1e-6), (op, name)


def small_network():
    """Convolution with a stride, largest elements, average, product, softmax with cross-entropy."""
    net = NetworkBuilder("small", "f64")
    x, labels = net.input("x", (2, 1, 8, 8)), net.input("labels", (2, 3))
    w, v = net.weight("w", (4, 1, 3, 3)), net.weight("v", (3, 16))
    conv = conv2d(batch=2, in_channels=1, out_channels=4, height=8, width=8, kernel=3, padding=1)
    y = net.apply(conv, x, w, name="conv")
    y = net.apply(Unary("relu", conv.out_shape), y, name="relu")
    y = net.apply(max_pool2d(conv.out_shape, 2), y, name="pool")
    y = net.apply(average_pool2d((2, 4, 4, 4), 2), y, name="average")
    y = net.apply(Reshape((2, 4, 2, 2), (2, 16)), y, name="flat")
    y = net.apply(gemm(2, 3, 16, transpose_b=True), y, v, name="scores")
    p = net.apply(tw.ops.Softmax((2, 3), 1), y, name="p")
    text = "loss[n] += -labels[n,k] * log(p[n,k])"
    net.apply(tw.define(text, labels=(2, 3), p=(2, 3)), labels, p, name="loss")
    return net.build(("loss",))


def test_a_small_network_end_to_end():
    network, rng = small_network(), np.random.default_rng(1)
    feeds = {t.name: rng.standard_normal(t.shape) for t in (*network.inputs, *network.weights)}
    feeds["labels"] = np.eye(3)[[0, 2]]
    whole, named = with_gradients(network, "loss", ("w", "v"))
    found = whole.evaluate(feeds)
    for name in ("w", "v"):
        assert np.allclose(found[named[name]], differences(network, feeds, name), rtol=1e-6)


def test_the_first_of_equal_elements_takes_the_gradient():
    net = NetworkBuilder("ties", "f64")
    x = net.input("x", (1, 1, 2, 4))
    net.apply(max_pool2d((1, 1, 2, 4), 2), x, name="y")
    whole, named = with_gradients(net.build(("y",)), "y", ("x",))
    found = whole.evaluate({"x": np.array([[[[1.0, 1, 0, 2], [1, 0, 2, 2]]]])})[named["x"]]
    assert found.tolist() == [[[[1, 0, 0, 1], [0, 0, 0, 0]]]]


def test_second_derivatives_need_nothing_more():
    """The gradient of the sum of a gradient, against differences of that gradient."""
    net, rng = NetworkBuilder("twice", "f64"), np.random.default_rng(2)
    x, w = net.input("x", (3, 4)), net.weight("w", (5, 4))
    y = net.apply(gemm(3, 5, 4, transpose_b=True), x, w, name="y")
    net.apply(Unary("tanh", (3, 5)), y, name="z")
    once, named = with_gradients(net.build(("z",)), "z", ("w",))
    twice, again = with_gradients(once, named["w"], ("w",))
    feeds = {"x": rng.standard_normal((3, 4)), "w": rng.standard_normal((5, 4))}
    expected = differences(once, feeds, "w", named["w"])
    assert np.allclose(twice.evaluate(feeds)[again["w"]], expected, rtol=1e-5, atol=1e-7)


def test_what_has_no_gradient_is_refused_by_node():
    net = NetworkBuilder("table", "i8")
    x, table = net.input("x", (3,), "i32"), net.weight("table", (8,))
    net.apply(lookup(3, entries=8), x, table, name="found")
    with pytest.raises(GraphError) as refused:
        with_gradients(net.build(("found",)), "found", ("table",))
    assert str(refused.value) == (
        "node found: lookup 3 of 8, shift 0 is no sequence of definitions, so it has no gradient"
    )


def test_a_tensor_without_influence_is_named():
    network = small_network()
    with pytest.raises(GraphError) as refused:
        with_gradients(network, "conv", ("v",))
    assert str(refused.value) == "'conv' does not depend on 'v'"
