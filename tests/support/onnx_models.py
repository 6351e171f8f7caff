"""Small ONNX models for the tests of the front end."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx import load_onnx


def model(nodes, inputs, weights=None, outputs=("y",), opset=13, integers=()):
    """A model of `nodes`; `inputs` maps names to shapes, `weights` to arrays."""
    kinds = dict.fromkeys(integers, TensorProto.INT64)
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(k, kinds.get(k, TensorProto.FLOAT), s)
            for k, s in inputs.items()
        ],
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, None) for k in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def saved(tmp_path, proto):
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def refusal(path, **arguments):
    with pytest.raises(GraphError) as caught:
        load_onnx(path, **arguments)
    return str(caught.value)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32) / 4


def ints(*values):
    return np.array(values, np.int64)


node = helper.make_node
IMAGE = {"x": (2, 4, 9, 8)}
