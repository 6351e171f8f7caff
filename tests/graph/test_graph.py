"""Networks: names, the checks that a network passes when it is made, evaluation."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.common.errors import GraphError
from tilewright.graph import Network, Node, Tensor, safe_name
from tilewright.graph.builder import NetworkBuilder
from tilewright.ops import add, gemm, relu

# --- names -----------------------------------------------------------------------------------


@given(st.text(), st.sets(st.text(alphabet="abn_23", max_size=6)))
def test_a_safe_name_is_safe_and_new_whatever_the_text(text, taken):
    name = safe_name(text, taken)
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name)
    assert name not in taken


def test_long_equal_texts_stay_apart():
    first = safe_name("layer" * 20)
    second = safe_name("layer" * 20, {first})
    assert len(first) == len(second) == 40
    assert second.endswith("_2")


@given(st.lists(st.text(max_size=3), max_size=12))
def test_the_nodes_of_a_network_have_different_names(texts):
    net = NetworkBuilder("n", "f64")
    x = net.input("x", (2, 2))
    for index, text in enumerate(texts):
        x = net.apply(relu((2, 2)), x, name=text, output=f"y{index}")
    names = [node.name for node in net.build((x,)).nodes]
    assert len(set(names)) == len(texts)


# --- checks ----------------------------------------------------------------------------------

X = Tensor("x", (2, 3), "f64")
RELU = Node("act", relu((2, 3)), ("x",), "y")


@pytest.mark.parametrize(
    ("inputs", "nodes", "outputs", "message"),
    [
        (
            (X,),
            (Node("act", relu((2, 3)), ("z",), "y"),),
            ("y",),
            "node act names the tensor 'z', which nothing before it produces",
        ),
        (
            (X,),
            (Node("act", relu((3, 2)), ("x",), "y"),),
            ("y",),
            "node act: relu takes 3x2 f64, but 'x' is 2x3 f64",
        ),
        (
            (X,),
            (Node("act", relu((2, 3), dtype="f32"), ("x",), "y"),),
            ("y",),
            "node act: relu takes 2x3 f32, but 'x' is 2x3 f64",
        ),
        (
            (X,),
            (Node("sum", add((2, 3)), ("x",), "y"),),
            ("y",),
            "node sum: add takes 2 tensors, found 1",
        ),
        ((X, X), (RELU,), ("y",), "the network defines the tensor 'x' a second time"),
        (
            (X,),
            (Node("act", relu((2, 3)), ("x",), "x"),),
            ("x",),
            "act defines the tensor 'x' a second time",
        ),
        (
            (X,),
            (RELU, Node("act", relu((2, 3)), ("y",), "z")),
            ("z",),
            "two nodes are called 'act'",
        ),
        (
            (X,),
            (RELU,),
            ("w",),
            "the network's outputs names the tensor 'w', which nothing before it produces",
        ),
    ],
)
def test_a_network_that_contradicts_itself_is_refused(inputs, nodes, outputs, message):
    with pytest.raises(GraphError) as refusal:
        Network("n", inputs, (), nodes, outputs)
    assert str(refusal.value) == message


# --- evaluation ------------------------------------------------------------------------------


def two_layers() -> Network:
    net = NetworkBuilder("two", "f64")
    x = net.input("x", (2, 3))
    y = net.apply(gemm(2, 4, 3), x, net.weight("w", (3, 4)), name="First Layer")
    y = net.apply(relu((2, 4)), y, name="act")
    y = net.apply(gemm(2, 4, 4), y, net.weight("v", (4, 4)), name="First Layer")
    return net.build((y,))


def test_layers_are_the_products_under_safe_unique_names():
    layers = list(two_layers().layers())
    assert [name for name, _ in layers] == ["first_layer", "first_layer_2"]
    assert [op.k for _, op in layers] == [3, 4]


def test_evaluate_runs_the_references_in_order():
    generator = np.random.default_rng(0)
    feeds = {
        name: generator.integers(-9, 9, shape).astype(float)
        for name, shape in (("x", (2, 3)), ("w", (3, 4)), ("v", (4, 4)))
    }
    (result,) = two_layers().evaluate(feeds).values()
    assert np.array_equal(result, np.maximum(feeds["x"] @ feeds["w"], 0) @ feeds["v"])


def test_evaluate_names_what_is_missing():
    with pytest.raises(GraphError) as refusal:
        two_layers().evaluate({"x": np.zeros((2, 3)), "w": np.zeros((3, 4))})
    assert str(refusal.value) == "no numbers are given for 'v', 4x4 f64"
