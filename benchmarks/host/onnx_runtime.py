"""onnxruntime: one-operator models with constant weights, inputs and results bound beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from host.contest import Missing, Prepared, Workload
from tilewright.ops import Conv2d, Gemm

try:
    import onnxruntime
except ImportError as error:
    onnxruntime, _why = None, str(error)

_OPSET, _IR_VERSION = 17, 9


def find_onnxruntime(threads: int) -> OnnxRuntime | Missing:
    """The package, or a `Missing` if it is not installed."""
    if onnxruntime is None:
        return Missing("onnxruntime", _why, "pip install onnxruntime")
    return OnnxRuntime(threads, onnxruntime.__version__)


@dataclass(frozen=True)
class OnnxRuntime:
    """Sessions on the CPU with all graph optimisations."""

    threads: int
    version: str
    name: str = "onnxruntime"

    def prepare(self, workload: Workload) -> list[Prepared]:
        """MatMul or Conv with weights that the session packs when it is created."""
        x, w = workload.inputs
        session = self._session(_model(workload.op, w))
        result = np.empty(workload.op.out_shape, np.float32)
        binding = session.io_binding()
        for name, array, bind in (("x", x, "input"), ("y", result, "output")):
            place = ("cpu", 0, np.float32, array.shape, array.ctypes.data)
            getattr(binding, f"bind_{bind}")(name, *place)

        def run(calls: int) -> None:
            for _ in range(calls):
                session.run_with_iobinding(binding)

        return [Prepared(run, lambda: result, "its own", (x, session))]

    def _session(self, model: onnx.ModelProto) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        providers = ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers)


def _model(op: Conv2d | Gemm, weights: Any) -> onnx.ModelProto:
    """Model of y = op(x, w), with w as a constant."""
    if isinstance(op, Gemm):
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
    else:
        node = helper.make_node(
            "Conv",
            ["x", "w"],
            ["y"],
            strides=op.stride,
            pads=op.padding,
            dilations=op.dilation,
            group=op.groups,
        )
    sides = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", op.input_shapes[0]), ("y", op.out_shape))
    ]
    graph = helper.make_graph(
        [node], "one", sides[:1], sides[1:], [numpy_helper.from_array(weights, "w")]
    )
    opset = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, ir_version=_IR_VERSION, opset_imports=opset)
