"""Recurrent layers and loops mean what they mean to onnxruntime; what is endless is told."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from support.onnx_models import floats, ints, model, node, refusal, saved
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.operators import control

STEPS, BATCH, DEPTH, HIDDEN = 3, 2, 4, 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
X = floats(STEPS, BATCH, DEPTH)


def layer(kind, *, directions=1, peepholes=False, states=False, lengths=False, **attributes):
    """A model of one layer with random weights."""
    rows = GATES[kind] * HIDDEN
    weights = {
        "w": floats(directions, rows, DEPTH, seed=1) / 2,
        "r": floats(directions, rows, HIDDEN, seed=2) / 2,
        "b": floats(directions, 2 * rows, seed=3) / 2,
    }
    names = ["x", "w", "r", "b", "", "", "", ""]
    if lengths:
        weights["n"], names[4] = np.array([3, 2], np.int32), "n"
    if states:
        weights["h"], names[5] = floats(directions, BATCH, HIDDEN, seed=4), "h"
    if states and kind == "LSTM":
        weights["c"], names[6] = floats(directions, BATCH, HIDDEN, seed=5), "c"
    if peepholes:
        weights["p"], names[7] = floats(directions, 3 * HIDDEN, seed=6), "p"
    if directions > 1:
        attributes["direction"] = "bidirectional"
    outputs = ["y", "last", "cell"][: 3 if kind == "LSTM" else 2]
    while not names[-1]:
        names.pop()
    one = helper.make_node(kind, names, outputs, hidden_size=HIDDEN, **attributes)
    return model([one], {"x": X.shape}, weights, outputs, opset=14)


@pytest.mark.parametrize(
    "proto",
    [
        layer("LSTM"),
        layer("LSTM", directions=2, states=True, lengths=True),
        layer("LSTM", direction="reverse", peepholes=True),
        layer("LSTM", input_forget=1, activations=["HardSigmoid", "Softsign", "Elu"]),
        layer("GRU", directions=2, states=True, lengths=True),
        layer("GRU", linear_before_reset=1, direction="reverse"),
        layer("RNN", directions=2, states=True, activations=["LeakyRelu", "Affine"],
              activation_alpha=[0.2, 0.5], activation_beta=[0.25]),
        layer("RNN", lengths=True, activations=["ScaledTanh"], activation_alpha=[0.7],
              activation_beta=[0.5]),
    ],
    ids=lambda proto: " ".join(
        [proto.graph.node[0].op_type, *(a.name for a in proto.graph.node[0].attribute[1:])]
    ),
)  # fmt: skip
def test_layers_are_those_of_onnxruntime(tmp_path, proto):
    path = saved(tmp_path, proto)
    expected = onnxruntime.InferenceSession(str(path)).run(None, {"x": X})
    found = load_onnx(path).evaluate({"x": X})
    for (name, array), other in zip(found.items(), expected, strict=True):
        np.testing.assert_allclose(array, other, rtol=1e-5, atol=1e-5, err_msg=name)


def test_outputs_without_a_name_are_left_out(tmp_path):
    whole, cell = layer("LSTM"), layer("LSTM")
    cell.graph.node[0].output[:2] = ["", ""]
    del cell.graph.output[:2]
    networks = [load_onnx(saved(tmp_path, proto)) for proto in (whole, cell)]
    expected, found = (network.evaluate({"x": X}) for network in networks)
    assert found.keys() == {"cell"}
    np.testing.assert_array_equal(found["cell"], expected["cell"])
    assert len(networks[1].nodes) < len(networks[0].nodes)


def body(nodes, inputs, outputs, kinds):
    """A graph whose tensors have open shapes."""
    values = [
        [
            helper.make_tensor_value_info(name, kind, None)
            for name, kind in zip(names, own, strict=True)
        ]
        for names, own in ((inputs, kinds[0]), (outputs, kinds[1]))
    ]
    return helper.make_graph(nodes, "body", *values)


FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
HALVED = body(
    [node("Mul", ["s", "half"], ["next"]), node("Add", ["next", "x"], ["seen"]),
     node("Identity", ["going"], ["still"])],
    ["i", "going", "s"], ["still", "next", "seen"], ((INT64, BOOL, FLOAT), (BOOL, FLOAT, FLOAT)),
)  # fmt: skip


def loop(count):
    return model(
        [helper.make_node("Loop", ["m", "", "x"], ["last", "y"], body=HALVED)],
        {"x": (2, 3)}, {"m": ints(count), "half": np.array(0.5, np.float32)}, ("last", "y"),
    )  # fmt: skip


def test_a_loop_of_a_known_count_is_its_passes(tmp_path):
    network = load_onnx(saved(tmp_path, loop(3)))
    x = floats(2, 3)
    found = network.evaluate({"x": x})
    assert np.array_equal(found["last"], x / 8)
    assert np.array_equal(found["y"], np.stack([x + x / 2, x + x / 4, x + x / 8]))


def test_a_scan_is_a_pass_for_each_slice(tmp_path):
    sums = body(
        [node("Add", ["s", "part"], ["next"]), node("Identity", ["next"], ["seen"])],
        ["s", "part"], ["next", "seen"], ((FLOAT,) * 2,) * 2,
    )  # fmt: skip
    scan = helper.make_node("Scan", ["s0", "x"], ["last", "y"], num_scan_inputs=1, body=sums,
                            scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[1],
                            scan_output_directions=[1])  # fmt: skip
    proto = model([scan], {"s0": (2,), "x": (2, 3)}, {}, ("last", "y"))
    s, x = floats(2, seed=1), floats(2, 3)
    found = load_onnx(saved(tmp_path, proto)).evaluate({"s0": s, "x": x})
    running = s[:, None] + np.cumsum(x[:, ::-1], 1)
    assert np.array_equal(found["last"], running[:, -1])
    assert np.array_equal(found["y"], running[:, ::-1])


def test_a_loop_whose_end_depends_on_data_is_refused(tmp_path, monkeypatch):
    until = body(
        [node("ReduceMax", ["s"], ["most"], keepdims=0), node("Greater", ["most", "one"], ["on"]),
         node("Mul", ["s", "half"], ["next"])],
        ["i", "going", "s"], ["on", "next"], ((INT64, BOOL, FLOAT), (BOOL, FLOAT)),
    )  # fmt: skip
    weights = {"one": np.array(1, np.float32), "half": np.array(0.5, np.float32)}
    proto = model(
        [helper.make_node("Loop", ["", "", "x"], ["y"], body=until)], {"x": (2,)}, weights
    )
    path = saved(tmp_path, proto)
    assert refusal(path) == (
        f"{path}: node 'y' (Loop): the condition 'body/on/on@0' must be a constant"
    )
    counted = loop(3)
    del counted.graph.initializer[0]
    counted.graph.input.append(helper.make_tensor_value_info("m", INT64, (1,)))
    path = saved(tmp_path, counted)
    assert refusal(path) == (
        f"{path}: node 'last' (Loop): input 0 ('m') must be a constant; docs/reference/onnx.md "
        "lists what is read"
    )
    monkeypatch.setattr(control, "_MOST_PASSES", 4)
    endless = saved(tmp_path, loop(5))
    assert refusal(endless) == f"{endless}: node 'last' (Loop): makes more than 4 passes"


def test_activations_are_as_many_as_the_layer_has(tmp_path):
    path = saved(tmp_path, layer("LSTM", activations=["Tanh"]))
    assert refusal(path) == (
        f"{path}: node 'y' (LSTM): 3 activations are needed, found 1"
    )  # fmt: skip
