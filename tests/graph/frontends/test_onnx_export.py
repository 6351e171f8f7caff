"""Networks that are exported to ONNX and read back compute as before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from hypothesis import given

from support.examples import examples
from support.networks import networks, numbers_for
from support.onnx_models import model, node, saved
from tilewright.common.errors import GraphError
from tilewright.graph.builder import NetworkBuilder
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.export import export_onnx, original_model
from tilewright.graph.graph import Network, Tensor
from tilewright.graph.rewrites.definitions import with_shuffles
from tilewright.graph.zoo import network as zoo_network
from tilewright.ir.scalar import FUNCTIONS
from tilewright.ops import Bias, Binary, Op, Reduce, Resize, Shuffle, Unary
from tilewright.ops.elementwise import binary_functions, unary_functions
from tilewright.ops.notation import operator_of

WITHOUT_A_FORM = (
    "expm1", "gelu", "gelu_tanh", "hard_swish", "log1p", "mish", "swish", "trunc",
)  # fmt: skip
"""Functions that ONNX 13 lacks, or has with attributes of its own."""
FUNCTIONS_WITH_A_FORM = [
    name for name in (*unary_functions(), *binary_functions()) if name not in WITHOUT_A_FORM
]


def test_networks_come_back(tmp_path) -> None:
    @examples(15)
    @given(networks())
    def check(network: Network) -> None:
        weights, inputs = numbers_for(network)
        path = tmp_path / "m.onnx"
        path.write_bytes(export_onnx(network, weights).SerializeToString())
        found = load_onnx(path).evaluate(inputs)
        expected = network.evaluate({**weights, **inputs})
        assert list(found) == list(expected)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)

    check()


def one_node(op: Op, kind: str = "f64") -> Network:
    net = NetworkBuilder("one", kind)
    given = [net.input(name, shape) for name, shape in zip("xw", op.input_shapes, strict=False)]
    return net.build((net.apply(op, *given, name="y"),))


MOVED_AND_REDUCED = [
    Shuffle((2, 6, 3), 1, 2, 0, 3),
    Shuffle((2, 6, 3), 1, 2, 1, 2),
    Shuffle((9,), 0, 3, 2, 1),
    Resize((2, 3, 4), (1, 2, 3)),
    *(Reduce(function, (2, 3, 4), (0, 2)) for function in ("max", "mean", "min", "sum")),
]


@pytest.mark.parametrize("op", MOVED_AND_REDUCED, ids=lambda op: op.describe())
def test_what_moves_and_reduces_comes_back(tmp_path, op: Op) -> None:
    """A shuffle as the operators that it stands for, in which this computer finds it again."""
    path = tmp_path / "m.onnx"
    stored = export_onnx(one_node(op), {})
    onnx.checker.check_model(stored)
    path.write_bytes(stored.SerializeToString())
    found, x = load_onnx(path), np.random.default_rng(0).normal(size=op.input_shapes[0])
    np.testing.assert_allclose(found.evaluate({"x": x})["y"], op.reference(x), rtol=1e-15)
    (node,) = with_shuffles(found).nodes
    assert node.op == op


@pytest.mark.parametrize("function", FUNCTIONS_WITH_A_FORM)
def test_functions_come_back(tmp_path, function: str) -> None:
    op: Unary | Binary
    if function in unary_functions():
        parameters = FUNCTIONS[function].parameters
        alpha, beta = (0.25, 0.5)[:parameters] + (0.0, 0.0)[parameters:]
        op = Unary(function, (2, 3), alpha, beta)
    else:
        op = Binary(function, (2, 3), (3,))
    path = tmp_path / "m.onnx"
    path.write_bytes(export_onnx(one_node(op), {}).SerializeToString())
    (node,) = load_onnx(path).nodes
    assert node.op == op


@pytest.mark.parametrize("function", WITHOUT_A_FORM)
def test_functions_that_onnx_lacks_are_refused(function: str) -> None:
    with pytest.raises(GraphError) as refusal:
        export_onnx(one_node(Unary(function, (2, 3))), {})
    assert str(refusal.value) == f"node y: {function} is no operator of ONNX 13"


def test_a_definition_has_no_form() -> None:
    net = NetworkBuilder("one", "f32")
    op = replace(operator_of("y[i] = x[2*i]", i=4, x=(8,)), dtype="f32")
    with pytest.raises(GraphError) as refusal:
        export_onnx(net.build((net.apply(op, net.input("x", (8,)), name="y"),)), {})
    assert str(refusal.value) == "node y: y[i] = x[2*i]; i=4 has no form in ONNX"


def test_a_scaled_bias_needs_its_numbers() -> None:
    net = NetworkBuilder("one", "f64")
    given = net.input("x", (2, 3)), net.input("b", (3,))
    network = net.build((net.apply(Bias((2, 3), 1, scale=0.5), *given, name="y"),))
    with pytest.raises(GraphError) as refusal:
        export_onnx(network, {})
    assert str(refusal.value) == "node y: its bias is scaled and has no numbers"


def test_element_types_that_are_not_exported_are_named() -> None:
    with pytest.raises(GraphError) as refusal:
        export_onnx(one_node(Unary("relu", (2, 3), dtype="f16"), "f16"), {})
    assert str(refusal.value) == ("the tensor 'x' is of f16, models are exported of f32 and f64")


def test_numbers_are_needed() -> None:
    with pytest.raises(GraphError) as caught:
        export_onnx(zoo_network("lenet5", 1), {})
    assert str(caught.value) == "no numbers are given for the weight 'c1_weight'"


@pytest.mark.parametrize("shape", [(2, 4), ("N", 4), (-1, 4)])
@pytest.mark.parametrize("batch", [2, 3])
def test_a_file_is_taken_as_it_is_where_it_has_the_shapes_or_leaves_them_open(
    tmp_path: Path, shape: tuple[object, ...], batch: int
) -> None:
    path = saved(tmp_path, model([node("Relu", "x", "y")], {"x": shape}))
    found = original_model(load_onnx(path, batch=batch))
    if shape != (2, 4) or batch == 2:
        assert found == str(path)
    else:
        assert isinstance(found, bytes)
        extents = onnx.load_from_string(found).graph.input[0].type.tensor_type.shape.dim
        assert [d.dim_value for d in extents] == [3, 4]


@pytest.mark.parametrize(
    ("declared", "fits"),
    [
        ((2, 3), True), (("n", 3), True), ((None, None), True), ((-1, 3), True),
        ((4, 3), False), ((2, 4), False), (("n", 4), False),
    ],
)  # fmt: skip
def test_a_model_whose_shapes_fit_stays_as_it_stands(declared, fits, tmp_path) -> None:
    stored = model([node("Relu", "x", "y")], {"x": declared}, {})
    path = saved(tmp_path, stored)
    given = Tensor("x", (2, 3), "f32")
    network = SimpleNamespace(source=str(path), inputs=(given,), bound={})
    assert (original_model(network) == str(path)) == fits
