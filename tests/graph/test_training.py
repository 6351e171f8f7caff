"""A training step as one network: what the update is, that it learns, refusals."""

import numpy as np
import pytest

import tilewright as tw
from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.gradient import with_gradients
from tilewright.graph.graph import State
from tilewright.graph.rewrites.added_maps import added_maps
from tilewright.graph.rewrites.constants import fold_constants
from tilewright.graph.rewrites.separable_sums import separable_sums
from tilewright.graph.training import LOSS, Optimiser, passes_of, training_step
from tilewright.ops import (
    BatchNorm,
    Bias,
    Reshape,
    Softmax,
    Unary,
    conv2d,
    gemm,
    max_pool2d,
)

RATES = {"sgd": 0.2, "momentum": 0.05, "adam": 0.01}


def classifier(images=8):
    """A convolution, largest elements and a product with a bias, for ten classes of 8x8 pixels."""
    net = NetworkBuilder("classifier", "f64")
    x, w = net.input("x", (images, 1, 8, 8)), net.weight("w", (4, 1, 3, 3))
    v, c = net.weight("v", (10, 64)), net.weight("c", (10,))
    conv = conv2d(
        batch=images, in_channels=1, out_channels=4, height=8, width=8, kernel=3, padding=1
    )
    y = net.apply(conv, x, w, name="conv")
    y = net.apply(Unary("relu", conv.out_shape), y, name="relu")
    y = net.apply(max_pool2d(conv.out_shape, 2), y, name="pool")
    y = net.apply(Reshape((images, 4, 4, 4), (images, 64)), y, name="flat")
    y = net.apply(gemm(images, 10, 64, transpose_b=True), y, v, name="scores")
    y = net.apply(Bias((images, 10), 1), y, c, name="biased")
    return net.build((net.apply(Softmax((images, 10), 1), y, name="p"),))


def data(rng, prototypes, images=8):
    labels = rng.integers(0, 10, images)
    noise = 0.3 * rng.standard_normal((images, 1, 8, 8))
    return {"x": prototypes[labels] + noise, "labels": np.eye(10)[labels]}


def started(step, rng):
    """States: small random weights, zeros beside them."""
    shapes = {s.tensor: step.tensors[s.tensor].shape for s in step.states}
    return {
        name: 0.1 * rng.standard_normal(shape) if name in ("w", "v") else np.zeros(shape)
        for name, shape in shapes.items()
    }


def test_plain_descent_takes_the_gradient_times_the_rate():
    step, rng = training_step(classifier(), Optimiser("sgd", 0.5)), np.random.default_rng(0)
    assert step.states == (State("w", "next_w"), State("v", "next_v"), State("c", "next_c"))
    states = started(step, rng)
    feeds = data(rng, rng.standard_normal((10, 1, 8, 8)))
    found = step.evaluate({**feeds, **states})
    probabilities = classifier().evaluate({"x": feeds["x"], **states})["p"]
    loss = -np.log(probabilities[feeds["labels"] == 1]).mean()
    assert found[LOSS] == pytest.approx(loss, rel=1e-12)
    for state in step.states:
        change = np.zeros_like(states[state.tensor])
        for place in np.ndindex(change.shape):
            if rng.integers(8) or change.size < 16:
                continue
            beside = []
            for sign in (1e-6, -1e-6):
                moved = {**states, state.tensor: states[state.tensor].copy()}
                moved[state.tensor][place] += sign
                beside.append(step.evaluate({**feeds, **moved})[LOSS][0])
            slope = (beside[0] - beside[1]) / 2e-6
            taken = states[state.tensor][place] - found[state.next][place]
            assert taken == pytest.approx(0.5 * slope, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("method", RATES)
def test_each_optimiser_learns(method):
    rng = np.random.default_rng(1)
    step = training_step(classifier(), Optimiser(method, RATES[method]))
    prototypes, states, losses = rng.standard_normal((10, 1, 8, 8)), started(step, rng), []
    for _ in range(40):
        found = step.evaluate({**data(rng, prototypes), **states})
        states = {state.tensor: found[state.next] for state in step.states}
        losses.append(float(found[LOSS][0]))
    assert losses[0] > 2
    assert max(losses[-5:]) < losses[0] / 4


def test_adam_is_that_of_its_paper():
    """Kingma and Ba, Algorithm 1, on one weight through three steps."""
    net = NetworkBuilder("one", "f64")
    x, w = net.input("x", (2, 3)), net.weight("w", (2, 3))
    network = net.build((net.apply(gemm(2, 2, 3, transpose_b=True), x, w, name="y"),))
    rng, optimiser = np.random.default_rng(2), Optimiser("adam", 0.1, 0.8, 0.9)
    step = training_step(network, optimiser)
    states = {s.tensor: np.zeros(step.tensors[s.tensor].shape) for s in step.states}
    states["w"] = rng.standard_normal((2, 3))
    feeds = {"x": rng.standard_normal((2, 3)), "labels": np.eye(2)}
    weight, mean, square = states["w"].copy(), 0.0, 0.0
    for count in range(1, 4):
        scores = feeds["x"] @ weight.T
        p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        g = (p - feeds["labels"]).T @ feeds["x"] / 2
        mean, square = 0.8 * mean + 0.2 * g, 0.9 * square + 0.1 * g * g
        corrected = mean / (1 - 0.8**count), square / (1 - 0.9**count)
        weight -= 0.1 * corrected[0] / (np.sqrt(corrected[1]) + 1e-8 / np.sqrt(1 - 0.9**count))
        found = step.evaluate({**feeds, **states})
        states = {state.tensor: found[state.next] for state in step.states}
        assert np.allclose(states["w"], weight, rtol=1e-9)


@pytest.mark.parametrize(("count", "share"), [(2, 0.9), (4, 0.8)])
def test_micro_batches_add_up_to_the_batch_and_end_one_after_the_other(count, share):
    whole = training_step(classifier(), Optimiser("sgd"))
    parts = training_step(classifier(), Optimiser("sgd"), micro_batches=count)
    rng = np.random.default_rng(4)
    feeds = {**data(rng, rng.standard_normal((10, 1, 8, 8))), **started(whole, rng)}
    expected, found = whole.evaluate(feeds), parts.evaluate(feeds)
    for a, b in zip(whole.outputs, parts.outputs, strict=True):
        assert np.allclose(found[b], expected[a], rtol=1e-12, atol=1e-14)
    held = [most_held(step, before="next_w") for step in (whole, parts)]
    assert held[1] < share * held[0]  # sums of the gradients of weights are held beside


def test_no_factor_can_leave_a_sum_of_a_step_and_no_maps_can_be_added_up():
    step = training_step(classifier(), Optimiser("sgd"))
    assert added_maps(separable_sums(step)) == step


def most_held(network, before):
    """Largest number of elements of results that are still to be read, up to a node."""
    last = {name: i for i, node in enumerate(network.nodes) for name in node.inputs}
    made = {node.output: i for i, node in enumerate(network.nodes)}
    end = made[before]
    sizes = {name: np.prod(network.tensors[name].shape) for name in made}
    return max(
        sum(sizes[n] for n, i in made.items() if i <= now < last.get(n, i)) for now in range(end)
    )


def test_each_node_of_a_step_belongs_to_a_pass():
    step = training_step(classifier(), Optimiser("momentum"))
    found = passes_of(step)
    assert {found[n] for n in ("conv", "relu", "pool", "scores", "loss")} == {"forward"}
    assert {found[n] for n in ("d_loss_of_image", "d_biased_sum", "d_scores")} == {"data gradient"}
    assert {found[n] for n in ("d_v", "d_w", "d_c", "d_flat")} == {"weight gradient"}
    assert {found[n] for n in ("next_v", "next_w", "next_w_velocity")} == {"update"}


def test_the_step_is_a_network_with_a_gradient_of_its_own():
    """Nothing in a step is special: it differentiates by the weights that it begins with."""
    step = training_step(classifier(2), Optimiser("sgd"))
    whole, named = with_gradients(step, "next_c", ("c",))
    assert whole.tensors[named["c"]].shape == (10,)


def scored(shape, outputs=1):
    net = NetworkBuilder("scored", "f64")
    x, w = net.input("x", shape), net.weight("w", shape)
    made = [
        net.apply(Unary("relu", shape), x, name="a"),
        net.apply(Unary("neg", shape), w, name="b"),
    ]
    return net.build(tuple(made[-outputs:]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Optimiser("sgd", 0.0), "a rate must be positive, found 0.0"),
        (lambda: Optimiser("sgd", float("nan")), "a rate must be positive, found nan"),
        (lambda: Optimiser("adam", decay=1.0), "a decay must be from 0 to below 1, found 1.0"),
        (
            lambda: Optimiser("newton"),
            "unknown optimiser 'newton'; sgd, momentum or adam",
        ),
        (
            lambda: training_step(scored((2, 3), 2)),
            "scored has 2 outputs, one is trained",
        ),
        (
            lambda: training_step(classifier(), micro_batches=3),
            "classifier: 3 micro-batches do not divide a batch of 8",
        ),
        (
            lambda: training_step(scored((2, 3)), micro_batches=2),
            "scored does not compute its images one by one",
        ),
        (
            lambda: training_step(scored((2, 3, 4))),
            "scored gives 2x3x4, a row of scores for each image is trained",
        ),
    ],
)
def test_what_is_not_trained(make, message):
    with pytest.raises(GraphError) as refused:
        make()
    assert str(refused.value) == message


@pytest.mark.parametrize("parts", [1, 2])
def test_normalisation_is_by_the_statistics_of_the_batch(parts):
    """Gradients are those of a loss whose statistics follow the weights; running ones follow."""
    net, shape = NetworkBuilder("normalised", "f64"), (6, 3, 2, 2)
    x, scale, shift, mean, variance = (
        net.input("x", shape),
        *(net.weight(name, (3,)) for name in ("scale", "shift", "mean", "variance")),
    )
    y = net.apply(BatchNorm(shape), x, scale, shift, mean, variance, name="norm")
    y = net.apply(Reshape(shape, (6, 12)), y, name="flat")
    step = training_step(net.build((y,)), Optimiser("sgd", rate=1.0), parts)
    rng = np.random.default_rng(0)
    images, labels = rng.standard_normal(shape), np.eye(12)[rng.integers(0, 12, 6)]
    states = {s.tensor: rng.random(3) for s in step.states}
    found = step.evaluate({"x": images, "labels": labels, **states})

    def loss(name, change):
        moved = states | {name: states[name] + change}
        return step.evaluate({"x": images, "labels": labels, **moved})["loss"][0]

    following = {s.tensor: found[s.next] for s in step.states}
    for name in ("scale", "shift"):
        slopes = [(loss(name, e) - loss(name, -e)) / 2e-5 for e in 1e-5 * np.eye(3)]
        assert np.allclose(states[name] - following[name], slopes, atol=1e-9)
    batches = images.reshape(parts, -1, 3, 4)
    of_batch = {"mean": batches.mean((1, 3)), "variance": batches.var((1, 3))}
    for name, own in of_batch.items():
        assert np.allclose(following[name], 0.9 * states[name] + 0.1 * own.mean(0))
        assert loss(name, 1.0) == found["loss"][0]


def test_numbers_that_a_state_begins_with_are_no_constants():
    net = NetworkBuilder("halves", "f64")
    x, w = net.input("x", (4, 3)), net.weight("w", (2, 6))
    half = net.apply(tw.ops.Transpose((2, 6), (1, 0)), w, name="turned")
    half = net.apply(Reshape((6, 2), (3, 4)), half, name="part")
    y = net.apply(gemm(4, 4, 3), x, half, name="scores")
    rng = np.random.default_rng(0)
    step = training_step(net.build((y,), {"w": rng.standard_normal((2, 6))}), Optimiser("sgd", 0.1))
    feeds = {"x": rng.standard_normal((4, 3)), "labels": np.eye(4), "w": np.ones((2, 6))}
    folded = fold_constants(step)
    assert np.array_equal(folded.evaluate(feeds)[LOSS], step.evaluate(feeds)[LOSS])
    assert np.isclose(step.evaluate(feeds)[LOSS], np.log(4))
