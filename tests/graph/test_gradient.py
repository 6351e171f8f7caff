"""Gradients of networks: against central differences, of every operator, and of gradients."""

import numpy as np
import pytest

import tilewright as tw
from support.gradients import SMOOTH, differences, drawn
from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import define
from tilewright.graph.gradient import with_gradients
from tilewright.ops import Reshape, Unary, average_pool2d, conv2d, gemm, max_pool2d
from tilewright.ops.lookup import lookup


@pytest.mark.parametrize("kind", SMOOTH)
@pytest.mark.parametrize("seed", range(3))
def test_every_operator_has_the_gradient_of_central_differences(kind, seed):
    network, inputs, feeds = drawn(np.random.default_rng(seed), kind)
    whole, named = with_gradients(network, "loss", inputs)
    found = whole.evaluate(feeds)
    for name in inputs:
        expected = differences(network, feeds, name)
        assert np.allclose(found[named[name]], expected, rtol=1e-5, atol=1e-6), (
            network.nodes[0],
            name,
        )


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


@pytest.mark.parametrize(("window", "stride"), [((3, 3), 2), ((3, 3), 1), ((2, 4), 1)])
def test_ties_in_windows_that_overlap_go_to_the_first_of_each(window, stride):
    pool, rng = max_pool2d((1, 2, 7, 8), window, stride=stride, padding=1), np.random.default_rng(2)
    net = NetworkBuilder("ties", "f64")
    net.apply(pool, net.input("x", pool.input_shapes[0]), name="y")
    whole, named = with_gradients(net.build(("y",)), "y", ("x",))
    assert max(len(node.inputs) for node in whole.nodes) <= 8
    x = rng.integers(0, 3, pool.input_shapes[0]).astype(float)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    expected = np.zeros_like(wide)
    for place in np.ndindex(*pool.out_shape):
        n, c, r, s = place[0], place[1], place[2] * stride, place[3] * stride
        taken = wide[n, c, r : r + window[0], s : s + window[1]]
        u, v = np.unravel_index(np.argmax(taken), window)
        expected[n, c, r + u, s + v] += 1
    assert np.array_equal(whole.evaluate({"x": x})[named["x"]], expected[:, :, 1:-1, 1:-1])


@pytest.mark.parametrize(
    ("extent", "window", "stride", "dilation", "padding"),
    [(8, 2, 1, 2, 1), (8, 3, 1, 3, 2), (7, 4, 1, 2, 2), (8, 3, 2, 3, 2)],
)
def test_places_that_not_every_step_of_a_window_reaches_have_a_gradient(
    extent, window, stride, dilation, padding
):
    """A window leaves out places between its steps, and with a border some at each end."""
    taps = dilation * np.arange(window) - padding
    starts = stride * np.arange((extent + 2 * padding - dilation * (window - 1) - 1) // stride + 1)
    text = f"y[r] max= x[{stride}*r+{dilation}*t-{padding}]"
    op = define(text, fill=-np.inf, dtype="f64", r=len(starts), t=window, x=(extent,))
    net = NetworkBuilder("apart", "f64")
    net.apply(op, net.input("x", (extent,)), name="y")
    whole, named = with_gradients(net.build(("y",)), "y", ("x",))
    x = np.random.default_rng(6).permutation(extent).astype(float)
    expected = np.zeros(extent)
    for places in starts[:, None] + taps:
        inside = places[(places >= 0) & (places < extent)]
        expected[inside[np.argmax(x[inside])]] += 1
    assert np.array_equal(whole.evaluate({"x": x})[named["x"]], expected)


def test_a_window_of_its_border_alone_depends_on_nothing():
    op = define("y[r] max= x[r+4*t-1]", fill=-np.inf, dtype="f64", r=1, t=2, x=(3,))
    net = NetworkBuilder("border", "f64")
    net.apply(op, net.input("x", (3,)), name="y")
    with pytest.raises(GraphError) as refused:
        with_gradients(net.build(("y",)), "y", ("x",))
    assert str(refused.value) == "'y' does not depend on 'x'"


@pytest.mark.parametrize("shape", [(3, 67), (2, 1000), (2, 9, 10), (1, 70, 130), (2, 3, 5, 11)])
def test_the_largest_of_many_elements_gives_the_first_of_them_the_gradient(shape):
    """Widths that no count of windows divides share elements."""
    rng, net = np.random.default_rng(4), NetworkBuilder("many", "f64")
    axes = "abc"[: len(shape) - 1]
    op = define(f"y[n] max= x[n,{','.join(axes)}]", dtype="f64", x=shape)
    net.apply(op, net.input("x", shape), name="y")
    whole, named = with_gradients(net.build(("y",)), "y", ("x",))
    x = rng.integers(0, 5, shape).astype(float)
    found = whole.evaluate({"x": x})
    flat = x.reshape(shape[0], -1)
    expected = np.zeros_like(flat)
    expected[np.arange(shape[0]), flat.argmax(1)] = 1
    assert np.array_equal(found[named["x"]], expected.reshape(shape))
    assert np.array_equal(found["y"], flat.max(1))


def test_the_largest_of_what_is_computed_has_a_gradient_by_each_operand():
    op = define("y[n,o] max= abs(x[n,i] - w[o,i])", dtype="f64", n=3, o=4, i=70)
    net, rng = NetworkBuilder("distance", "f64"), np.random.default_rng(5)
    feeds = {"x": rng.standard_normal((3, 70)), "w": rng.standard_normal((4, 70))}
    net.apply(op, net.input("x", (3, 70)), net.weight("w", (4, 70)), name="y")
    network = net.build(("y",))
    whole, named = with_gradients(network, "y", ("x", "w"))
    found = whole.evaluate(feeds)
    for name in feeds:
        expected = differences(network, feeds, name, "y")
        assert np.allclose(found[named[name]], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("function", ["relu", "tanh", "sigmoid", "exp"])
def test_where_the_result_gives_the_derivative_the_operand_is_not_kept(function):
    net, rng = NetworkBuilder("one", "f64"), np.random.default_rng(3)
    x = net.input("x", (3, 4))
    y = net.apply(Unary("neg", (3, 4)), x, name="before")
    net.apply(Unary(function, (3, 4)), y, name="after", output="after")
    network = net.build(("after",))
    whole, named = with_gradients(network, "after", (x,))
    assert [node.name for node in whole.nodes if y in node.inputs] == ["after"]
    feeds = {"x": rng.standard_normal((3, 4))}
    expected = differences(network, feeds, "x", "after")
    assert np.allclose(whole.evaluate(feeds)[named[x]], expected, rtol=1e-6)


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


def test_gradients_of_results_may_be_given():
    """As those of the sum of results times these."""
    net = NetworkBuilder("layer", "f64")
    x = net.input("x", (2, 3))
    net.input("dy", (2, 4))
    op = gemm(2, 4, 3, transpose_b=True)
    net.apply(op, x, net.weight("w", (4, 3)), name="y", output="y")
    whole, named = with_gradients(net.build(("y",)), {"y": "dy"}, ("x", "w"))
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(n) for name, n in (("x", (2, 3)), ("dy", (2, 4)))}
    feeds["w"] = rng.standard_normal((4, 3))
    found = whole.evaluate(feeds)
    assert np.allclose(found[named["x"]], feeds["dy"] @ feeds["w"])
    assert np.allclose(found[named["w"]], feeds["dy"].T @ feeds["x"])
    assert not any(node.name == "d_y" for node in whole.nodes)
