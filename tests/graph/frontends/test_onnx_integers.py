"""Products of 8-bit integers with zero points: equal to ONNX Runtime on the same file, exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, load_model, numpy_helper, save_model

from support.native import NATIVE_HOSTS
from support.onnx_backend import host_results
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx import load_onnx

KINDS = {"i8": (np.int8, TensorProto.INT8), "u8": (np.uint8, TensorProto.UINT8)}


def written(
    folder: Path,
    kind: str,
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    names: list[str],
    **attributes: object,
) -> Path:
    """A model of one node; its inputs in the order of `names`, an empty name for none."""
    types = {np.dtype(numpy): code for numpy, code in KINDS.values()}
    types[np.dtype(np.int32)] = TensorProto.INT32
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], name="product", **attributes)],
        "integers",
        [helper.make_tensor_value_info(n, types[a.dtype], a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save_model(model, folder / "model.onnx")
    return folder / "model.onnx"


def assert_equal_to_runtime(path: Path, inputs: dict[str, np.ndarray]) -> None:
    """Outputs of the network that is read are those of the runtime on the file itself."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs)
    (found,) = load_onnx(path).evaluate(inputs).values()
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


def numbers(draw: st.DrawFn, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Any values of `u8`, and seven bits of `i8`: the runtime adds pairs of products in 16 bits
    where the processor has no instructions for bytes, and saturates them.
    """
    limits = np.iinfo(KINDS[kind][0])
    low, high = (limits.min, limits.max) if kind == "u8" else (-64, 63)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random.integers(low, high + 1, shape).astype(KINDS[kind][0])


@given(data=st.data())
def test_products_of_bytes_are_those_of_the_runtime(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    m, n, k = (data.draw(st.integers(1, 7)) for _ in range(3))
    a = numbers(data.draw, "u8", (m, k))
    b = numbers(data.draw, right := data.draw(st.sampled_from(["i8", "u8"])), (k, n))
    points = {
        "za": numbers(data.draw, "u8", ()),
        "zb": numbers(data.draw, right, data.draw(st.sampled_from([(), (n,)]))),
    }
    given_points = {name for name in points if data.draw(st.booleans())}
    names = ["a", "b", *(name if name in given_points else "" for name in points)]
    held = {name: points[name] for name in given_points}
    constants = {"b": b, **held} if data.draw(st.booleans()) else held
    inputs = {name: array for name, array in {"a": a, "b": b}.items() if name not in constants}
    folder = tmp_path_factory.mktemp("product")
    path = written(folder, "MatMulInteger", inputs, constants, names)
    assert_equal_to_runtime(path, inputs)


@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 2, 0, 1)], ids=["valid", "padded"])
@pytest.mark.parametrize("point", [None, 0, 7], ids=["none", "zero", "seven"])
def test_padding_of_a_convolution_has_the_value_of_the_zero_point(
    padding: tuple[int, ...], point: int | None, tmp_path: Path
) -> None:
    random = np.random.default_rng(5)
    inputs = {"x": random.integers(0, 256, (2, 3, 6, 5)).astype(np.uint8)}
    constants = {"w": random.integers(0, 256, (4, 3, 3, 2)).astype(np.uint8)}
    names = ["x", "w"]
    if point is not None:
        constants["zero"] = np.array(point, np.uint8)
        names.append("zero")
    attributes = {"pads": padding, "strides": (2, 1)}
    path = written(tmp_path, "ConvInteger", inputs, constants, names, **attributes)
    assert_equal_to_runtime(path, inputs)


def test_products_of_words_wrap_as_those_of_the_runtime_do(tmp_path: Path) -> None:
    inputs = {"a": np.full((2, 3), 2**20 + 1, np.int32)}
    constants = {"b": np.full((3, 4), 2**15 + 3, np.int32)}
    path = written(tmp_path, "MatMul", inputs, constants, ["a", "b"])
    assert_equal_to_runtime(path, inputs)


def test_operands_without_zero_point_stay_bytes(tmp_path: Path) -> None:
    inputs = {"a": np.ones((2, 3), np.uint8)}
    path = written(tmp_path, "MatMulInteger", inputs, {"b": np.ones((3, 4), np.int8)}, ["a", "b"])
    (node,) = load_onnx(path).nodes
    assert node.op.dtype == "u8,i8:i32"


def test_zero_points_of_another_count_are_refused(tmp_path: Path) -> None:
    inputs = {"a": np.ones((2, 3), np.uint8)}
    constants = {"b": np.ones((3, 4), np.uint8), "zb": np.arange(3, dtype=np.uint8)}
    path = written(tmp_path, "MatMulInteger", inputs, constants, ["a", "b", "", "zb"])
    with pytest.raises(GraphError) as refusal:
        load_onnx(path)
    assert str(refusal.value) == (
        f"{path}: node 'product' (MatMulInteger): input 3 holds 3 zero points, expected one or 4"
    )


def test_a_float_operator_does_not_take_bytes(tmp_path: Path) -> None:
    path = written(tmp_path, "Softmax", {"x": np.ones((2, 3), np.uint8)}, {}, ["x"])
    with pytest.raises(GraphError) as refusal:
        load_onnx(path)
    assert str(refusal.value) == (
        f"{path}: node 'product' (Softmax) takes 'x', which holds u8; it takes f64, f32, f16, bf16"
    )


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no description of this computer")
@pytest.mark.parametrize("kind", ["u8", "i8"])
@pytest.mark.parametrize("operator", ["Sign", "TopK"])
def test_bytes_are_compared_on_this_computer(kind: str, operator: str, tmp_path: Path) -> None:
    inputs = {"x": np.array([[3, 0, 200, 7, 255]], np.uint8).astype(KINDS[kind][0])}
    constants = {"k": np.array([2])} if operator == "TopK" else {}
    path = written(tmp_path, operator, inputs, constants, ["x", *constants])
    model = load_model(path)
    model.graph.output[0].type.tensor_type.elem_type = KINDS[kind][1]
    model.graph.node[0].output.extend(["places"] * len(constants))
    save_model(model, path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, inputs)
    ((found,),) = host_results([load_onnx(path)], [[inputs]])
    np.testing.assert_array_equal(found["y"], expected)


@pytest.mark.skipif(not NATIVE_HOSTS, reason="no description of this computer")
def test_products_of_integers_are_exact_on_this_computer(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    a, b = (random.integers(0, 256, shape).astype(np.uint8) for shape in ((3, 40), (40, 5)))
    x, w = (random.integers(0, 256, s).astype(np.uint8) for s in ((1, 2, 5, 6), (3, 2, 3, 2)))
    zero = {"za": np.array(9, np.uint8)}
    cases = []
    for kind, inputs in (("MatMulInteger", {"a": a, "b": b}), ("ConvInteger", {"a": x, "b": w})):
        (folder := tmp_path / kind).mkdir()
        path = written(folder, kind, inputs, zero, ["a", "b", "za"])
        cases.append((load_onnx(path), inputs))
    results = host_results([network for network, _ in cases], [[given] for _, given in cases])
    for (network, arrays), (found,) in zip(cases, results, strict=True):
        np.testing.assert_array_equal(found["y"], network.evaluate(arrays)["y"])
