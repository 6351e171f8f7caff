"""A training step that core groups compute on their own images, with sums over groups."""

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.gradient import with_gradients
from tilewright.graph.rewrites.over_groups import alike_in_groups, over_groups
from tilewright.graph.rewriting import simplified
from tilewright.graph.training import Optimiser, training_step
from tilewright.graph.zoo import network
from tilewright.machine import load_machine
from tilewright.network.build import build_plan
from tilewright.network.interpret import interpret_plan
from tilewright.network.plan import Value, lives_of, use_of
from tilewright.network.planning.form import row_major
from tilewright.ops import BatchNorm, Binary, Reshape, Unary, gemm, max_pool2d


def layers(images=8):
    net = NetworkBuilder("two_layers", "f64")
    x, w, v = net.input("x", (images, 6)), net.weight("w", (8, 6)), net.weight("v", (4, 8))
    y = net.apply(gemm(images, 8, 6, transpose_b=True), x, w, name="first")
    y = net.apply(Unary("tanh", (images, 8)), y, name="tanh")
    y = net.apply(gemm(images, 4, 8, transpose_b=True), y, v, name="second")
    return net.build((y,))


def test_sums_over_images_are_those_of_each_group_added_up():
    part = over_groups(simplified(training_step(layers(), Optimiser("sgd"))), 2)
    lines = [f"{n.output} = {n.op.kind}({', '.join(n.inputs)})" for n in part.nodes]
    assert lines[lines.index("d_w = gemm(d_first, x)") :] == [
        "d_w = gemm(d_first, x)",
        "d_w_of_0 = from_group(d_w)",
        "d_w_of_1 = from_group(d_w)",
        "d_w_in_all = add(d_w_of_0, d_w_of_1)",
        "next_w = map(w, d_w_in_all)",
    ]
    assert part.tensors["d_w"].shape == (8, 6)
    assert part.tensors["first"].shape == (4, 8)
    assert {"loss", "next_w", "next_v"} <= alike_in_groups(part)


@pytest.mark.parametrize("name", ["lenet5", "vgg16", "resnet50"])
def test_steps_of_known_networks_divide_their_images(name):
    step = simplified(training_step(network(name, 16)))
    part = over_groups(step, 4)
    assert part.inputs[0].shape[0] == 4
    assert [t.shape for t in part.inputs[2:]] == [t.shape for t in step.inputs[2:]]


def test_images_that_groups_do_not_divide_stay_together():
    step = simplified(training_step(layers(6)))
    assert over_groups(step, 4) is step


def step_and_numbers(method):
    step = training_step(layers(), Optimiser(method))
    rng = np.random.default_rng(0)
    feeds = {t.name: np.abs(rng.standard_normal(t.shape)) for t in step.inputs}
    return step, feeds | {"labels": np.eye(4)[rng.integers(0, 4, 8)]}


@pytest.mark.parametrize("method", ["momentum", "adam"])
def test_four_groups_take_the_step_of_the_whole_batch(method):
    step, feeds = step_and_numbers(method)
    made = tw.compile(step, machine="sw26010").plan
    assert made.plan.groups == 4
    ways = {"interpreted": replace(made, code=None)}
    if method == "adam":  # has states of one element, which one group writes
        ways["emulated"] = made
    expected = step.evaluate(feeds)
    for way, planned in ways.items():
        found = planned.run(**feeds)
        for name, y in expected.items():
            assert np.allclose(found[name], y, rtol=1e-12, atol=1e-15), (way, name)


def test_groups_normalise_by_the_statistics_of_the_whole_batch():
    net, shape = NetworkBuilder("normalised", "f64"), (8, 3, 2, 2)
    weights = (net.weight(name, (3,)) for name in ("scale", "shift", "mean", "variance"))
    y = net.apply(BatchNorm(shape), net.input("x", shape), *weights, name="norm")
    y = net.apply(Reshape(shape, (8, 12)), y, name="flat")
    step = training_step(net.build((y,)), Optimiser("sgd"))
    made = tw.compile(step, machine="sw26010").plan
    assert made.plan.groups == 4
    rng = np.random.default_rng(0)
    feeds = {t.name: rng.random(t.shape) for t in step.inputs}
    feeds |= {"labels": np.eye(12)[rng.integers(0, 12, 8)]}
    found = replace(made, code=None).run(**feeds)
    for name, expected in step.evaluate(feeds).items():
        assert np.allclose(found[name], expected, rtol=1e-12, atol=1e-15), name


def test_what_other_groups_read_lives_until_all_have_met_again():
    part = Value("part", row_major((8,)), "f64", "scratch")
    other = replace(part, role="elsewhere", origin=(0, 1))
    total = Value("total", row_major((8,)), "f64", "state", shared=True)
    free = Value("free", row_major((8,)), "f64", "scratch")
    values = [part, other, total, free]
    uses = [
        use_of(values, (0,), 1),
        use_of(values, (1, 2), 4),
        use_of(values, (3,), 1),
        use_of(values, (2, 3), 1),
    ]
    lives = lives_of(values, uses)
    assert (lives[0].first, lives[0].last) == (0, 2)


@pytest.mark.parametrize(("channels", "maps"), [(32, 1), (4, 4)], ids=["large", "small"])
def test_parts_of_a_gradient_that_lie_between_each_other_are_one_map(channels, maps):
    """A map for each place in the windows, or one for all where a window's step is large."""
    net, shape = NetworkBuilder("pooled", "f64"), (32, channels, 6, 4)
    x, factors = net.input("x", shape), net.input("factors", (32, channels, 3, 2))
    y = net.apply(max_pool2d(shape, 2), x, name="pool")
    y = net.apply(Binary("mul", net.shape(y), net.shape(y)), y, factors, name="scaled")
    step, names = with_gradients(net.build((y,)), y, ("x",))
    plan = build_plan(step, load_machine("sw26010_cg"))
    assert [s.nodes for s in plan.stages].count(("d_x",)) == maps
    rng = np.random.default_rng(0)
    given = {t.name: rng.integers(-2, 3, t.shape).astype(float) for t in step.inputs}
    expected = step.evaluate(given)[names["x"]]
    assert np.array_equal(interpret_plan(plan, given, {})[names["x"]], expected)
