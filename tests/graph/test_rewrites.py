"""Every graph rewrite as texts: `rewrites/<name>/*.txt` hold a network before and after it.

A file starts with comments that say what to see; the line `# after` separates the networks, which
are written as `support.network_text` says. Both compute the same.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from support.network_text import parse_network, print_network
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.gradient import with_gradients
from tilewright.graph.rewrites.early_pooling import early_pooling
from tilewright.graph.rewrites.finished_parts import finished_parts
from tilewright.graph.rewrites.fusion import fused_nodes
from tilewright.graph.rewrites.images import fewer_images
from tilewright.graph.rewriting import simplifications, simplified
from tilewright.graph.weights import random_weights
from tilewright.graph.zoo import list_networks, network
from tilewright.ops import Binary, Slice, Unary, conv2d, max_pool2d

FILES = sorted((Path(__file__).parent / "rewrites").glob("*/*.txt"))
REWRITES = {
    **simplifications(),
    "early_pooling": early_pooling,
    "fusion": fused_nodes,
    "images": partial(fewer_images, count=2),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_before_and_after(path):
    rewrite = REWRITES[path.parent.name]
    before, _, expected = path.read_text(encoding="utf-8").partition("# after\n")
    given = parse_network(before)
    after = rewrite(given)
    assert print_network(after) == expected
    numbers = {**random_weights(given, 1), **given.values}
    rng = np.random.default_rng(0)
    images = {t.name: rng.standard_normal(t.shape) for t in given.inputs}
    first = {t.name: images[t.name][: t.shape[0]] for t in after.inputs}
    found = after.evaluate({**numbers, **first})
    for name, y in given.evaluate({**numbers, **images}).items():
        np.testing.assert_array_equal(found[name], y[: len(found[name])])


def test_every_rewrite_has_cases():
    """Definitions are no calls of this text; tests/ops/test_normal_form.py has theirs."""
    written = set(REWRITES) - {"definitions", "finished_parts"}
    assert {path.parent.name for path in FILES} == written


def test_a_mask_behind_the_gradient_of_a_pooling_joins_its_parts():
    net = NetworkBuilder("pooled", "f64")
    x = net.apply(Unary("tanh", (2, 3, 4, 4)), net.input("x", (2, 3, 4, 4)), name="tanh")
    y = net.apply(Unary("relu", (2, 3, 4, 4)), x, name="relu")
    y = net.apply(max_pool2d((2, 3, 4, 4), 2), y, name="pool")
    given, found = with_gradients(net.build((y,)), y, [x])
    after = finished_parts(given)
    (before,) = (node for node in given.nodes if node.op.kind == "assembly")
    assert before.output not in after.tensors
    (joined,) = (node for node in after.nodes if node.op.kind == "assembly")
    assert joined.output == found[x]
    assert joined.inputs == before.inputs
    numbers = np.random.default_rng(0).integers(-2, 3, (2, 3, 4, 4)) / 4
    np.testing.assert_array_equal(
        after.evaluate({"x": numbers})[found[x]], given.evaluate({"x": numbers})[found[x]]
    )


def test_gradients_of_strides_are_added_and_masked_in_one_go():
    net, rng = NetworkBuilder("strided", "f64"), np.random.default_rng(0)
    x = net.apply(Unary("relu", (2, 3, 4, 4)), net.input("x", (2, 3, 4, 4)), name="relu")
    conv = conv2d(batch=2, in_channels=3, out_channels=5, height=4, width=4, kernel=1, stride=2)
    y, z = (net.apply(conv, x, net.weight(n, (5, 3, 1, 1)), name=f"c{n}") for n in "vw")
    y = net.apply(Binary("mul", (2, 5, 2, 2), (2, 5, 2, 2)), y, z, name="product")
    given, found = with_gradients(net.build((y,)), y, ["x"])
    after = simplified(given)
    (joined,) = (node for node in after.nodes if node.op.kind == "assembly")
    assert joined.output == found["x"]
    assert [part.body for part in joined.op.parts] == [
        "x0 + x1 if x2 > 0.0 else 0.0", "0.0", "0.0", "0.0",
    ]  # fmt: skip
    shapes = {"x": (2, 3, 4, 4), "v": (5, 3, 1, 1), "w": (5, 3, 1, 1)}
    feeds = {name: rng.integers(-3, 4, shape) for name, shape in shapes.items()}
    np.testing.assert_array_equal(
        after.evaluate(feeds)[found["x"]], given.evaluate(feeds)[found["x"]]
    )


@pytest.mark.parametrize(("first", "count"), [((0, 0, 1), (1, 1, 3)), ((0, 1, 0), (1, 1, 3))])
def test_steps_that_do_not_divide_an_axis_have_no_parts_to_finish(first, count):
    """Places 1, 4 and 7 of eight have two and not three 2, 5 beside; one place of two steps no
    further.
    """
    net, shape = NetworkBuilder("sliced", "f64"), (1, 2, 8)
    x = net.apply(Unary("relu", shape), net.input("x", shape), name="relu")
    y = net.apply(Slice(shape, first, count, (1, 3, 3)), x, name="y")
    given, found = with_gradients(net.build((y,)), y, ["x"])
    numbers = np.arange(16.0).reshape(shape) - 9
    expected = np.zeros(shape)
    places = tuple(slice(a, a + 3 * n, 3) for a, n in zip(first, count, strict=True))
    expected[places] = numbers[places] > 0
    np.testing.assert_array_equal(simplified(given).evaluate({"x": numbers})[found["x"]], expected)


def test_simplifications_go_on_until_none_changes_anything():
    given = parse_network(
        "input x f64 (1, 4)\n"
        "a = Unary('identity', (1, 4)) x\n"
        "b = Unary('relu', (1, 4)) a\n"
        "c = Unary('relu', (1, 4)) x\n"
        "d = Binary('add', (1, 4), (1, 4)) b c\n"
        "output d\n"
    )
    seen = []
    after = simplified(given, lambda name, old, new: seen.append((name, len(new.nodes))))
    assert seen == [("identities", 3), ("equal_nodes", 2)], "the relus are equal without identity"
    assert [node.name for node in after.nodes] == ["b", "d"]


def test_known_networks_have_nothing_to_simplify():
    for name in list_networks():
        known = network(name, 1)
        assert simplified(known) is known
