"""Gradients of an LSTM: against its chain rule through time, and against central differences."""

import numpy as np
from onnx import TensorProto, helper

from support.gradients import differences
from support.onnx_models import saved
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.gradient import with_gradients

STEPS, BATCH, DEPTH, HIDDEN = 3, 2, 4, 3
SHAPES = {
    "x": (STEPS, BATCH, DEPTH),
    "w": (1, 4 * HIDDEN, DEPTH),
    "r": (1, 4 * HIDDEN, HIDDEN),
    "b": (1, 8 * HIDDEN),
    "h": (1, BATCH, HIDDEN),
    "c": (1, BATCH, HIDDEN),
}
RESULT = (STEPS, 1, BATCH, HIDDEN)


def lstm():
    """An ONNX model of one layer, whose operands are all inputs, and its weighted results."""
    names = ["x", "w", "r", "b", "", "h", "c"]
    nodes = [
        helper.make_node("LSTM", names, ["y"], hidden_size=HIDDEN),
        helper.make_node("Mul", ["y", "g"], ["loss"]),
    ]
    shapes = SHAPES | {"g": RESULT}
    inputs = [helper.make_tensor_value_info(k, TensorProto.DOUBLE, s) for k, s in shapes.items()]
    loss = helper.make_tensor_value_info("loss", TensorProto.DOUBLE, RESULT)
    graph = helper.make_graph(nodes, "lstm", inputs, [loss])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def through_time(feeds, dy):
    """Gradients by the chain rule: gates in ONNX's order, input, output, forget, cell."""
    w, r = feeds["w"][0], feeds["r"][0]
    bias, (h,), (c,) = feeds["b"][0].reshape(2, -1).sum(0), feeds["h"], feeds["c"]
    kept = []
    for x in feeds["x"]:
        i, o, f, g = np.split(x @ w.T + h @ r.T + bias, 4, axis=1)
        i, o, f, g = sigmoid(i), sigmoid(o), sigmoid(f), np.tanh(g)
        new = f * c + i * g
        kept.append((x, h, c, i, o, f, g, new))
        h, c = o * np.tanh(new), new
    found = {name: np.zeros(feeds[name].shape) for name in SHAPES}
    dh, dc = np.zeros_like(h), np.zeros_like(c)
    for step, (x, before, cell, i, o, f, g, new) in reversed(list(enumerate(kept))):
        dh = dh + dy[step, 0]
        dc = dc + dh * o * (1 - np.tanh(new) ** 2)
        gates = (
            dc * g * i * (1 - i),
            dh * np.tanh(new) * o * (1 - o),
            dc * cell * f * (1 - f),
            dc * i * (1 - g**2),
        )
        d = np.concatenate(gates, axis=1)
        found["w"][0] += d.T @ x
        found["r"][0] += d.T @ before
        found["b"][0] += np.tile(d.sum(0), 2)
        found["x"][step] = d @ w
        dh, dc = d @ r, dc * f
    return found | {"h": dh[None], "c": dc[None]}


def test_an_lstm_has_the_gradients_of_its_chain_rule_and_of_differences(tmp_path):
    network, rng = load_onnx(saved(tmp_path, lstm())), np.random.default_rng(0)
    feeds = {t.name: rng.standard_normal(t.shape) for t in network.inputs}
    whole, named = with_gradients(network, "loss", tuple(SHAPES))
    found, expected = whole.evaluate(feeds), through_time(feeds, feeds["g"])
    for name in SHAPES:
        assert np.allclose(found[named[name]], expected[name], rtol=1e-12, atol=1e-13), name
        assert np.allclose(found[named[name]], differences(network, feeds, name), atol=1e-7), name
