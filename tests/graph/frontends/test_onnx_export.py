"""Networks that are exported to ONNX and read back compute as before."""

from __future__ import annotations

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
from tilewright.graph.zoo import network as zoo_network
from tilewright.ir.scalar import FUNCTIONS
from tilewright.ops import Binary, Unary
from tilewright.ops.elementwise import binary_functions, unary_functions

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


def one_node(op: Unary | Binary) -> Network:
    net = NetworkBuilder("one", "f64")
    given = [net.input(name, shape) for name, shape in zip("xw", op.input_shapes, strict=False)]
    return net.build((net.apply(op, *given, name="y"),))


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
