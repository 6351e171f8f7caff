"""Networks whose tensors have types of their own: planned, generated and run as they mean."""

import numpy as np
import pytest

from support.native import NATIVE_HOSTS
from support.networks import quickly_loaded
from support.plans import GROUP, quick_search
from tilewright.common.errors import GraphError, ShapeError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.notation import network_of
from tilewright.graph.rewriting import simplified
from tilewright.network.build import build_plan
from tilewright.network.planned import PlannedNetwork
from tilewright.network.plans import Search
from tilewright.network.simulate import simulate_plan
from tilewright.ops import Concat, conv2d, gemm
from tilewright.ops.notation import operator_of
from tilewright.targets.host.network.generate import generated
from tilewright.targets.sw26010.networks import NETWORKS

SHAPE = (5, 24)


def mixed():
    """Comparison, truth values, a choice, a product, conversions, integers that wrap."""
    net = NetworkBuilder("mixed", "f32")
    x, w = net.input("x", SHAPE), net.weight("w", (24, 24))
    n, least = net.input("n", SHAPE, "i32"), net.input("least", (1,), "i16")

    def stage(text, types, *reads, name):
        sizes = {"i": SHAPE[0], "j": SHAPE[1]}
        return net.apply(operator_of(text, dtype=types, **sizes), *reads, name=name)

    less = stage("y[i,j] = a[i,j] < b[0]", "i32,i16:i32:bool", n, least, name="less")
    both = net.apply(Concat((SHAPE, SHAPE), 0, "bool"), less, less, name="both")
    product = net.apply(gemm(5, 24, 24, dtype="f32"), x, w, name="product")
    chosen = stage("y[i,j] = b[i,j] if a[i,j] else c[i,j]", "bool,f32,f32:f32", less, product, x,
                   name="chosen")  # fmt: skip
    whole = stage("y[i,j] = 1000 * x[i,j]", "f32:f32:i32", chosen, name="whole")
    byte = stage("y[i,j] = a[i,j] + b[i,j]", "i32,i32:i32:u8:even:wrap", whole, n, name="byte")
    return net.build((both, chosen, whole, byte))


def numbers():
    rng = np.random.default_rng(0)
    inputs = {
        "x": rng.integers(-3, 4, SHAPE).astype(np.float32),
        "n": rng.integers(-300, 300, SHAPE, dtype=np.int32),
        "least": np.array([7], np.int16),
    }
    return inputs, {"w": rng.integers(-2, 3, (24, 24)).astype(np.float32)}


def expected(inputs, weights):
    x, n, less = inputs["x"], inputs["n"], inputs["n"] < inputs["least"]
    chosen = np.where(less, x @ weights["w"], x)
    whole = (1000 * chosen).astype(np.int32)
    return {
        "both": np.concatenate([less, less]), "chosen": chosen, "whole": whole,
        "byte": (whole + n).astype(np.uint8),
    }  # fmt: skip


def require_equal(found, inputs, weights):
    for name, array in expected(inputs, weights).items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("columns", [23, 25])
def test_weights_of_another_size_are_refused(columns):
    network = mixed()
    planned = PlannedNetwork(network, build_plan(network, GROUP, quick_search(network)))
    with pytest.raises(ShapeError) as caught:
        planned.run(**numbers()[0], weights={"w": np.zeros((24, columns), np.float32)})
    assert str(caught.value) == f"'w' takes 576 numbers, found {24 * columns}"


@pytest.mark.parametrize("count", [5, 7])
def test_weights_of_another_size_that_lie_in_a_form_are_refused(count):
    """Filters of a convolution on the SW26010, whose channels lie innermost."""
    net = NetworkBuilder("filters", "f32")
    op = conv2d(batch=1, in_channels=3, out_channels=6, height=5, width=5, kernel=3, dtype="f32")
    x, w = (net.input("x", op.input_shapes[0]), net.weight("w", op.input_shapes[1]))
    network = net.build((net.apply(op, x, w, name="y"),))
    planned = PlannedNetwork(network, build_plan(network, GROUP, quick_search(network)))
    with pytest.raises(ShapeError) as caught:
        planned.run(np.zeros((1, 3, 5, 5)), weights={"w": np.zeros((count, 3, 3, 3))})
    assert str(caught.value) == f"'w' takes 162 numbers, found {27 * count}"


def test_each_tensor_has_the_type_that_it_is_given():
    network, (inputs, weights) = mixed(), numbers()
    require_equal(network.evaluate({**inputs, **weights}), inputs, weights)
    plan = build_plan(network, GROUP, quick_search(network))
    planned = PlannedNetwork(network, plan, weights, NETWORKS)
    run = simulate_plan(planned.plan)
    assert sum(run.by_cause().values()) == run.cycles
    interpreted = PlannedNetwork(network, plan, weights)
    require_equal(interpreted.run(**inputs), inputs, weights)
    require_equal(planned.run(**inputs), inputs, weights)


def test_this_computer_keeps_the_types():
    network, (inputs, weights) = mixed(), numbers()
    loaded = quickly_loaded(generated(network, NATIVE_HOSTS[0], Search(keep=1)))
    bound = loaded.bind(loaded.constants(weights))
    bound.give(inputs)
    bound.repeat(1)
    require_equal(bound.outputs(), inputs, weights)


GATHERS = (
    ("y[i] *= x[i,j]", "f32"),
    ("y[i] any= x[i,j]", "bool"),
    ("y[i] += x[i,j] * x[i,j]", "i8:i32"),
    ("y[i] max= x[i,j]", "u8"),
    ("y[i] += x[i,j]", "bool:f32:i64"),
)


def test_products_truths_and_integers_are_gathered():
    for text, types in GATHERS:
        op = operator_of(text, i=6, j=5, dtype=types)
        network = simplified(network_of(op))
        x = np.random.default_rng(0).integers(0, 3, (6, 5)).astype(op.numerics.operands[0].numpy)
        x[2] = 0
        expected = op.reference(x)
        plan = build_plan(network, GROUP, quick_search(network))
        loaded = quickly_loaded(generated(network, NATIVE_HOSTS[0], Search(keep=1)))
        bound = loaded.bind(loaded.constants({}))
        bound.give({"x": x})
        bound.repeat(1)
        for found in (PlannedNetwork(network, plan).run(x=x)["y"], bound.outputs()["y"]):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


def test_products_of_integers_are_refused_by_name():
    net = NetworkBuilder("integers", "f32")
    a, b = net.input("a", (4, 4), "i8"), net.input("b", (4, 4), "i8")
    network = net.build((net.apply(gemm(4, 4, 4, dtype="i8:i32"), a, b, name="product"),))
    with pytest.raises(GraphError) as refused:
        build_plan(network, GROUP)
    assert str(refused.value) == (
        "node product: no stage on sw26010_cg computes gemm of i8:i32; products, windows and "
        "functions of elements take floats of one type; integers and truth values are computed by "
        "definitions and moved"
    )
