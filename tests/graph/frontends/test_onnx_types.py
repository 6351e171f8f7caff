"""Models whose tensors differ in type, or whose parameters are inputs, mean what they say."""

import math

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16

from support.onnx_models import node, refusal, saved
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.export import original_model

KINDS = {np.dtype(n): onnx.helper.np_dtype_to_tensor_dtype(np.dtype(n)) for n in (
    "f4", "f2", bfloat16, "i4", "i8", "u1", "?")}  # fmt: skip
X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
INTEGERS = np.arange(12, dtype=np.int32).reshape(3, 4)
PLACES = np.array([2, -3, 0], np.int64)


def model_of(nodes, inputs, opset=21):
    given = [onnx.helper.make_tensor_value_info(n, KINDS[a.dtype], a.shape) for n, a in
             inputs.items()]  # fmt: skip
    result = onnx.helper.make_empty_tensor_value_info("y")
    graph = onnx.helper.make_graph(nodes, "g", given, [result])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])


CASES = {
    "Where": ([node("Less", "xz", "l"), node("Where", "lxz", "y")], {"x": X, "z": X[::-1].copy()},
              np.minimum(X, X[::-1])),
    "Cast": ([node("Cast", "x", "i", to=6), node("Mul", "ii", "m"), node("Cast", "m", "y", to=1)],
             {"x": X / 2}, np.trunc(X / 2) ** 2),
    "halves": ([node("Add", "xx", "y")], {"x": X.astype(np.float16)}, (2 * X).astype(np.float16)),
    "upper halves": ([node("MatMul", "xx", "m"), node("Tanh", "m", "y")],
                     {"x": (X[:, :3] / 2).astype(bfloat16)},
                     np.tanh((X[:, :3] / 2 @ (X[:, :3] / 2)).astype(bfloat16).astype(np.float32))
                     .astype(bfloat16)),
    "integer quotients": ([node("Div", "ab", "y")], {"a": INTEGERS - 6, "b": INTEGERS % 3 + 2},
                          np.trunc((INTEGERS - 6) / (INTEGERS % 3 + 2)).astype(np.int32)),
    "Gather": ([node("Gather", "xp", "y", axis=0)], {"x": X, "p": PLACES}, X[PLACES]),
    "CumSum": ([node("Constant", "", "a", value_int=1), node("CumSum", "xa", "y")], {"x": X},
               np.cumsum(X, 1)),
    "Softmax of rows": ([node("LogSoftmax", "x", "y")], {"x": X},
                        X - np.log(np.exp(X).sum(1, keepdims=True))),
    "batches": ([node("MatMul", "ab", "y")],
                {"a": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "b": X.T.copy()[None]},
                np.arange(24, dtype=np.float32).reshape(2, 3, 4) @ X.T[None]),
    "mirrored": ([node("Constant", "", "p", value_ints=[0, 2, 0, 3]),
                  node("Pad", "xp", "y", mode="reflect")], {"x": X},
                 np.pad(X, ((0, 0), (2, 3)), mode="reflect")),
    "a long mirrored border": (
        [node("Constant", "", "p", value_ints=[0, 70, 0, 66]),
         node("Pad", "xp", "y", mode="reflect")],
        {"x": np.arange(150, dtype=np.float32)[None].repeat(2, 0)},
        np.pad(np.arange(150, dtype=np.float32)[None].repeat(2, 0), ((0, 0), (70, 66)),
               mode="reflect")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_model_means_what_numpy_computes(tmp_path, name):
    nodes, inputs, expected = CASES[name]
    found = load_onnx(saved(tmp_path, model_of(nodes, inputs))).evaluate(inputs)["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_input_is_bound_to_a_value(tmp_path):
    inputs = {"x": X, "s": np.array([4, 3], np.int64)}
    path = saved(tmp_path, model_of([node("Reshape", "xs", "y", allowzero=1)], inputs))
    network = load_onnx(path, values={"s": inputs["s"]})
    assert [t.name for t in network.inputs] == ["x"]
    assert np.array_equal(network.evaluate({"x": X})["y"], X.reshape(4, 3))
    assert refusal(path, values={"s": inputs["s"].astype(np.float32)}) == (
        f"{path}: the value of 's' is 2 float32, the file declares 2 INT64"
    )
    assert refusal(path, values={"z": inputs["s"]}) == (
        f"{path}: a value is given for 'z', which is not an input; inputs: 'x', 's'"
    )


def test_numbers_are_bound_in_the_declared_type(tmp_path):
    inputs = {"x": X, "s": np.array([4, 3], np.int64), "k": np.array([0], np.int64)}
    nodes = [node("Gather", "xk", "g"), node("Reshape", "gs", "y")]
    path = saved(tmp_path, model_of(nodes, inputs))
    network = load_onnx(path, values={"s": [2, 2], "k": 1})
    assert np.array_equal(network.evaluate({"x": X})["y"], X[1].reshape(2, 2))
    assert {name: array.dtype for name, array in network.bound.items()} == {
        "s": np.int64, "k": np.int64
    }  # fmt: skip
    stored = onnx.load_from_string(original_model(network)).graph.initializer
    assert {tensor.name for tensor in stored} == {"s", "k"}
    assert refusal(path, values={"s": [2.5, 2]}) == (
        f"{path}: the value of 's' is 2 float64, the file declares 2 INT64"
    )
    assert refusal(path, values={"s": [2, 2, 1]}) == (
        f"{path}: the value of 's' is 3 int64, the file declares 2 INT64"
    )


@pytest.mark.parametrize(
    ("declared", "given", "shown"),
    [
        (np.int32, 2**40, "scalar int64, the file declares scalar INT32"),
        (np.int64, 10**20, "scalar of no element type, the file declares scalar INT64"),
        (np.int64, math.nan, "scalar float64, the file declares scalar INT64"),
        (np.int64, True, "scalar bool, the file declares scalar INT64"),
        (np.bool_, 7, "scalar int64, the file declares scalar BOOL"),
        (np.float32, 1e300, "scalar float64, the file declares scalar FLOAT"),
    ],
)
def test_a_number_that_the_declared_type_lacks_is_not_bound(tmp_path, declared, given, shown):
    inputs = {"x": X, "s": np.zeros((), declared)}
    path = saved(tmp_path, model_of([node("Relu", "x", "y")], inputs))
    assert refusal(path, values={"s": given}) == f"{path}: the value of 's' is {shown}"


def test_a_model_is_read_in_fixed_point(tmp_path):
    """Halves times halves: products, sums and what is made of them are exact in eighths."""
    nodes = [node("MatMul", "xw", "p"), node("Relu", "p", "y")]
    weights = onnx.numpy_helper.from_array(X.T / 2, "w")
    model = model_of(nodes, {"x": X})
    model.graph.initializer.append(weights)
    path = saved(tmp_path, model)
    network = load_onnx(path, dtype="q8.8:q48.16:q8.8")
    assert {t.dtype for t in network.tensors.values()} == {"q8.8"}
    found = network.evaluate({"x": (X * 128).astype(np.int16)})["y"]
    np.testing.assert_array_equal(found / 256, np.maximum(X / 2 @ X.T / 2, 0))


def test_a_known_condition_is_its_branch(tmp_path):
    def branch(kind):
        result = onnx.helper.make_empty_tensor_value_info("b")
        return onnx.helper.make_graph([node(kind, "x", "b")], kind, [], [result])

    choice = onnx.helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs")
    )
    inputs = {"x": X, "c": np.array(True)}
    path = saved(tmp_path, model_of([choice], inputs))
    for holds, expected in ((True, -X), (False, abs(X))):
        network = load_onnx(path, values={"c": np.array(holds)})
        assert np.array_equal(network.evaluate({"x": X})["y"], expected)
    assert refusal(path) == (
        f"{path}: node 'y' (If): input 0 ('c') must be a constant; docs/reference/onnx.md lists "
        "what is read"
    )


def test_an_index_outside_is_refused_when_the_file_is_read(tmp_path):
    nodes, inputs, _ = CASES["Gather"]
    path = saved(tmp_path, model_of(nodes, inputs))
    assert refusal(path, values={"p": np.array([3], np.int64)[[0, 0, 0]]}) == (
        f"{path}: node 'y' (Gather): the index 3 is outside -3..2"
    )


def test_a_stride_beyond_addresses_moves_a_single_window_nowhere(tmp_path):
    nodes = [node("MaxPool", "x", "y", kernel_shape=[3], strides=[2**62])]
    path = saved(tmp_path, model_of(nodes, {"x": X.reshape(1, 1, 12)}))
    found = load_onnx(path).evaluate({"x": X.reshape(1, 1, 12)})["y"]
    assert found.tolist() == [[[X.reshape(12)[:3].max()]]]


def test_an_operator_whose_name_is_no_text_is_refused(tmp_path):
    content = model_of([node("Relu", "x", "y")], {"x": X}).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(content.replace(b"Relu", b"Rel\xff"))
    assert refusal(path) == f"{path}: is not an ONNX model: a name is not UTF-8 text"
