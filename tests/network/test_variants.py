"""The ways to compute a network that plans are drafted of."""

import numpy as np
import pytest

from support.plans import GROUP, quick_search
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.rewrites.constants import WithAhead, without_ahead
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.planning.variants import variants
from tilewright.ops import BatchNorm, Binary, Unary, conv2d, max_pool2d
from tilewright.seeds.convolution.winograd import applies
from tilewright.targets.sw26010.emulation.run import run_emulated
from tilewright.targets.sw26010.network.code import constant_block, emit_network

CHANNELS = 64


def normalised_windows(dtype="f64"):
    """A convolution with normalisation and a rectifier before the largest of each window."""
    net = NetworkBuilder("windows", dtype)
    op = conv2d(
        batch=1, in_channels=8, out_channels=CHANNELS, height=16, width=16, kernel=3, padding=1,
        dtype=dtype,
    )  # fmt: skip
    y = net.apply(
        op, net.input("x", (1, 8, 16, 16)), net.weight("w", (CHANNELS, 8, 3, 3)), name="conv"
    )
    words = ("scale", "shift", "mean", "variance")
    weights = [net.weight(word, (CHANNELS,)) for word in words]
    y = net.apply(BatchNorm(op.out_shape, 0.0, dtype), y, *weights, name="norm")
    y = net.apply(Unary("relu", op.out_shape, dtype=dtype), y, name="relu")
    y = net.apply(max_pool2d(op.out_shape, 2, stride=2, dtype=dtype), y, name="pool")
    return net.build((net.apply(Unary("neg", net.shape(y), dtype=dtype), y, name="y"),))


def numbers():
    rng = np.random.default_rng(0)
    inputs = {"x": rng.integers(-3, 4, (1, 8, 16, 16)).astype(float)}
    weights = {
        "w": rng.integers(-2, 3, (CHANNELS, 8, 3, 3)).astype(float),
        "scale": rng.integers(-1, 2, CHANNELS) * 2.0,
        "shift": rng.integers(-9, 10, CHANNELS).astype(float),
        "mean": rng.integers(-9, 10, CHANNELS).astype(float),
        "variance": np.full(CHANNELS, 4.0),
    }
    assert {-2, 0, 2} == set(weights["scale"])
    return inputs, weights


def test_signs_of_a_scale_are_in_the_filters_ahead_of_all_runs():
    plain, early = variants(normalised_windows(), applies, fuse=True)
    assert [node.name for node in plain.ahead] == []
    assert [[n.name for n in chain.nodes] for chain in plain.chains] == [
        ["conv", "norm", "relu"],
        ["pool", "y"],
    ]
    assert [[n.name for n in chain.nodes] for chain in early.chains] == [
        ["conv", "pool", "norm", "relu", "y"],
    ]
    assert {n.name for n in early.ahead} == {
        "norm_signs", "norm_signs_of_filters", "norm_mean", "norm_scale", "norm_filters"
    }  # fmt: skip
    used = {t.name for t in early.network.weights}
    assert used == {"norm_filters", "norm_scale", "shift", "norm_mean", "variance"}
    (unfused,) = variants(normalised_windows(), applies, fuse=False)
    assert len(unfused.chains) == len(unfused.network.nodes)


def test_windows_before_a_normalisation_are_exact_whatever_its_signs():
    net = normalised_windows()
    plan = build_plan(net, GROUP, quick_search(net))
    assert [stage.nodes for stage in plan.stages if stage.work != "layout"] == [
        ("conv",),
        ("pool",),
        ("norm", "relu", "y"),
    ]
    inputs, weights = numbers()
    expected = net.evaluate({**inputs, **weights})["y"]
    assert len(np.unique(expected)) > 20
    np.testing.assert_array_equal(interpret_plan(plan, inputs, weights)["y"], expected)
    artifact = emit_network(plan, GROUP)
    block = constant_block(plan, weights)
    found = run_emulated(artifact, {**inputs, artifact.block: block})
    np.testing.assert_array_equal(found["y"], expected)


@pytest.mark.parametrize("is_output", [False, True])
def test_what_needs_weights_alone_is_computed_ahead_unless_it_is_an_output(is_output):
    net = NetworkBuilder("n", "f64")
    x, w = net.input("x", (2, 3)), net.weight("w", (2, 3))
    a = net.apply(Unary("abs", (2, 3)), w, name="a")
    y = net.apply(Unary("relu", (2, 3)), x, name="y")
    whole = net.build((y, a) if is_output else (y,))
    own, ahead = without_ahead(whole)
    assert [node.name for node in ahead] == ([] if is_output else ["a"])
    assert (own is whole) == is_output


def test_a_look_up_computes_each_of_its_nodes_once():
    """Forty doublings of one weight, each of which reads the one before twice."""
    net = NetworkBuilder("doublings", "f64")
    x, last = net.input("x", (1, 4)), net.weight("w", (1, 4))
    for index in range(40):
        last = net.apply(Binary("add", (1, 4), (1, 4)), last, last, name=f"d{index}")
    y = net.apply(Binary("add", (1, 4), (1, 4)), x, last, name="y")
    _, ahead = without_ahead(net.build((y,)))
    w = np.ones((1, 4))
    np.testing.assert_array_equal(WithAhead({"w": w}, ahead)["d39"], w * 2.0**40)
