"""A training step compiled as one network: what it computes is what its operators mean."""

import numpy as np
import pytest

import tilewright as tw
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.training import LOSS, Optimiser
from tilewright.ops import Bias, Reshape, Unary, conv2d, gemm, max_pool2d


def two_layers(images):
    """Two products with a function between them."""
    net = NetworkBuilder("two_layers", "f64")
    x, w, v = net.input("x", (images, 12)), net.weight("w", (16, 12)), net.weight("v", (4, 16))
    b = net.weight("b", (4,))
    y = net.apply(gemm(images, 16, 12, transpose_b=True), x, w, name="first")
    y = net.apply(Unary("tanh", (images, 16)), y, name="tanh")
    y = net.apply(gemm(images, 4, 16, transpose_b=True), y, v, name="second")
    return net.build((net.apply(Bias((images, 4), 1), y, b, name="scores"),))


def convolution(images):
    """A convolution, the largest of its windows, and a product."""
    net = NetworkBuilder("convolution", "f64")
    x, w, v = (
        net.input("x", (images, 1, 8, 8)),
        net.weight("w", (4, 1, 3, 3)),
        net.weight("v", (4, 64)),
    )
    op = conv2d(batch=images, in_channels=1, out_channels=4, height=8, width=8, kernel=3, padding=1)
    y = net.apply(op, x, w, name="conv")
    y = net.apply(Unary("relu", op.out_shape), y, name="relu")
    y = net.apply(max_pool2d(op.out_shape, 2), y, name="pool")
    y = net.apply(Reshape((images, 4, 4, 4), (images, 64)), y, name="flat")
    return net.build((net.apply(gemm(images, 4, 64, transpose_b=True), y, v, name="scores"),))


@pytest.mark.parametrize(
    ("network", "machine"),
    [(two_layers, "sw26010_cg"), (convolution, "host")],
)
def test_a_step_is_planned_and_learns_on_each_machine(network, machine):
    """Two steps on the machine are two steps by the operators' references; the loss falls."""
    step = tw.training_step(network(8), Optimiser("momentum", rate=0.1))
    compiled, rng = tw.compile(step, machine=machine), np.random.default_rng(0)
    shapes = {t.name: t.shape for t in step.inputs}
    states = {s.tensor: np.zeros(shapes[s.tensor]) for s in step.states}
    states |= {w: 0.3 * rng.standard_normal(shapes[w]) for w in ("w", "v")}
    feeds = {"x": rng.standard_normal(shapes["x"]), "labels": np.eye(4)[rng.integers(0, 4, 8)]}
    losses, session = [], compiled.session(states)
    for _ in range(2):
        expected = step.evaluate({**feeds, **states})
        found = compiled.run(**feeds, **states)
        for name, value in expected.items():
            assert np.allclose(found[name], value, rtol=1e-9, atol=1e-12), name
        states = {state.tensor: found[state.next] for state in step.states}
        losses.append(float(found[LOSS][0]))
        assert np.allclose(session.until(step.outputs[1], feeds), found[step.outputs[1]])
        assert np.allclose(session.step(feeds)[LOSS], found[LOSS])
    assert losses[0] > losses[1]
    for name, array in session.states().items():
        assert np.allclose(array, states[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("machine", ["sw26010_cg", "host"])
def test_states_are_written_in_place(machine):
    """Each state is one value of the plan, and counted once; all else hardly takes more memory than
    is needed at the fullest moment.
    """
    step = tw.training_step(two_layers(256), Optimiser("momentum"))
    found = tw.compile(step, machine=machine).plan.described()
    assert found.state_bytes == 8 * sum(np.prod(step.tensors[s.tensor].shape) for s in step.states)
    assert found.live_bytes <= found.arena_bytes <= 1.05 * found.live_bytes
