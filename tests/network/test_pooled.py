"""Windows that are pooled inside the convolution before them, on the finished tile."""

from functools import cache

import numpy as np
import pytest

from support.plans import GROUP
from tilewright.graph.builder import NetworkBuilder
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.search import Search
from tilewright.network.simulate import simulate_plan
from tilewright.ops import Bias, Unary, average_pool2d, conv2d, max_pool2d
from tilewright.targets.sw26010.emit_network import constant_block, emit_network
from tilewright.targets.sw26010.emulate import run_emulated

POOLS = {"max": max_pool2d, "average": average_pool2d}


def windows(batch=8, size=16, pool="max", kernel=2, stride=2, dtype="f64", early=False):
    """A convolution, windows of its result, bias and rectifier, in either order."""
    net = NetworkBuilder("windows", dtype)
    op = conv2d(
        batch=batch, in_channels=8, out_channels=16, height=size, width=size, kernel=3, padding=1,
        dtype=dtype,
    )  # fmt: skip
    y = net.apply(op, net.input("x", op.input_shapes[0]), net.weight("w", (16, 8, 3, 3)), name="conv")
    b = net.weight("b", (16,))

    def pooled(y):
        own = POOLS[pool](net.shape(y), kernel, stride=stride, dtype=dtype)
        return net.apply(own, y, name="pool")

    y = pooled(y) if early else y
    y = net.apply(Bias(net.shape(y), 1, dtype=dtype), y, b, name="bias")
    y = net.apply(Unary("relu", net.shape(y), dtype=dtype), y, name="relu")
    y = y if early else pooled(y)
    return net.build((net.apply(Unary("neg", net.shape(y), dtype=dtype), y, name="y"),))


def numbers(net, seed=0):
    rng = np.random.default_rng(seed)
    kind = {"f64": np.float64, "f32": np.float32}[next(iter(net.tensors.values())).dtype]
    draw = lambda t: (4 * rng.integers(-3, 4, t.shape)).astype(kind)
    return {t.name: draw(t) for t in net.inputs}, {t.name: draw(t) for t in net.weights}


def computed(plan):
    return [stage.nodes for stage in plan.stages if stage.work != "layout"]


CASES = [("winograd2_fused", 8, "f64"), ("winograd4", 8, "f32"), ("winograd2_fours", 32, "f32")]


@pytest.mark.parametrize(("algorithm", "batch", "dtype"), CASES)
def test_windows_bias_and_rectifier_are_part_of_the_convolution(algorithm, batch, dtype):
    net = windows(batch, dtype=dtype)
    plan = build_plan(net, GROUP, Search(algorithm=algorithm, keep=2))
    assert computed(plan) == [("conv", "pool", "bias", "relu", "y")]
    inputs, weights = numbers(net)
    expected = net.evaluate({**inputs, **weights})["y"]
    np.testing.assert_array_equal(interpret_plan(plan, inputs, weights)["y"], expected)
    artifact = emit_network(plan, GROUP)
    found = run_emulated(artifact, {**inputs, artifact.block: constant_block(plan, weights)})
    np.testing.assert_array_equal(found["y"], expected)
    simulated, estimate = simulate_plan(plan).cycles, plan.estimate_cycles
    print(simulated, estimate)
