"""Networks as ONNX models, for other runtimes and for exchange; the front end reads them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper, numpy_helper

from tilewright import ops
from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.operators.elementwise import OF_ONE
from tilewright.graph.graph import Network, Node, Tensor
from tilewright.graph.names import quoted
from tilewright.ops.op import Array, Arrays, Shape

OPSET = 13
_MOST_BYTES = 2**31 - 1
"""Size limit of a model file, in bytes."""
_PLAIN_VERSION, _NOTED_VERSION = 8, 10
"""Versions of the file format; nodes can have metadata from the second on."""
_TYPES = {"f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE}
_UNARY = {
    words.split()[0]: (kind, words.split()[1:])
    for kind, words in OF_ONE.items()
    if onnx.defs.has(kind, OPSET, "")
}
_BINARY = {
    "add": "Add", "div": "Div", "max": "Max", "min": "Min", "mul": "Mul", "pow": "Pow",
    "prelu": "PRelu", "sub": "Sub",
}  # fmt: skip

_REPEATED = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
"""Attributes of a Resize that repeats elements."""


@dataclass(frozen=True)
class Notes:
    """Metadata of a model: texts by key, for the model itself and for nodes by name."""

    model: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def export_onnx(
    network: Network, weights: Arrays, *, notes: Notes | None = None
) -> onnx.ModelProto:
    """The model with these numbers, and the network's own, as its initializers.

    With `notes` as metadata, weights without numbers become inputs; without, they raise GraphError,
    as do operators without an ONNX equivalent, element types other than f32 and f64, and numbers
    beyond a file's size limit.
    """
    numbers = {**network.values, **weights}
    stored = {tensor.name: numbers[tensor.name] for tensor in network.weights
              if tensor.name in numbers}  # fmt: skip
    left = [tensor for tensor in network.weights if tensor.name not in stored]
    if left and notes is None:
        raise GraphError(f"no numbers are given for the weight {left[0].name!r}")
    _require_room(stored)
    nodes = [made for node in network.nodes for made in _Exporter(node, stored).every()]
    tensors = network.tensors
    graph = helper.make_graph(
        nodes,
        network.name,
        [_declared(tensor) for tensor in (*network.inputs, *left)],
        [_declared(tensors[name]) for name in network.outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()],
    )
    version = _PLAIN_VERSION if notes is None else _NOTED_VERSION
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=version
    )
    if notes is not None:
        helper.set_model_props(model, dict(notes.model))
        for node in model.graph.node:
            for key, text in notes.nodes.get(node.name, {}).items():
                node.metadata_props.add(key=key, value=text)
    return model


def _require_room(stored: Arrays) -> None:
    size = sum(array.nbytes for array in stored.values())
    if size > _MOST_BYTES:
        raise GraphError(
            f"the weights take {size} bytes, a model file has at most {_MOST_BYTES}",
            fix="export with a smaller element type",
        )


def original_model(network: Network) -> str | bytes:
    """The model that a network was read from: the path of its file, or, if the network differs, the
    model with the network's input shapes and with its bound inputs as constants.

    Raises GraphError for a file that can no longer be read.
    """
    try:
        model = onnx.load(network.source, load_external_data=False)
        shapes = {tensor.name: tensor.shape for tensor in network.inputs}
        declared = {v.name: v for v in model.graph.input if v.name in shapes}
        fit = all(_fits(value, shapes[name]) for name, value in declared.items())
        if fit and not network.bound:
            return network.source
        model = onnx.load(network.source)
    except (OSError, DecodeError):
        raise GraphError("the model cannot be read again", where=network.source) from None
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in network.bound.items()
    )
    if not fit:
        _reshape(model.graph, shapes)
    content: bytes = model.SerializeToString()
    return content


def _reshape(graph: onnx.GraphProto, shapes: Mapping[str, Shape]) -> None:
    """Replace the shapes of inputs, and drop the declared shapes of all other tensors."""
    del graph.value_info[:]
    for value in graph.input:
        if value.name in shapes:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, shapes[value.name]))
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")


def _fits(value: onnx.ValueInfoProto, shape: Shape) -> bool:
    """True if a declared input accepts a shape."""
    extents = value.type.tensor_type.shape.dim
    pairs = zip(extents, shape, strict=False)
    return all(not d.HasField("dim_value") or d.dim_value in (own, -1) for d, own in pairs)


def _declared(tensor: Tensor) -> onnx.ValueInfoProto:
    if tensor.dtype not in _TYPES:
        raise GraphError(
            f"the tensor {quoted(tensor.name)} is of {tensor.dtype}, models are exported of "
            f"{' and '.join(_TYPES)}"
        )
    return helper.make_tensor_value_info(tensor.name, _TYPES[tensor.dtype], tensor.shape)


class _Exporter:
    """Writes one node; constants that ONNX wants as tensors are added to `stored`."""

    def __init__(self, node: Node, stored: dict[str, Array]) -> None:
        self._node, self._stored = node, stored

    def made(self, kind: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(kind, inputs, [self._node.output], self._node.name, **attributes)

    def constant(self, name: str, numbers: Any) -> str:
        full = f"{self._node.name}/{name}"
        self._stored[full] = numbers
        return full

    def every(self) -> list[onnx.NodeProto]:
        """The ONNX nodes of a node; a bias without numbers is first reshaped to match its axis, and
        a shuffle is the operators whose result it is.
        """
        op, inputs = self._node.op, self._node.inputs
        if isinstance(op, ops.Shuffle):
            return self._in_turn(_parts_of(op))
        if not isinstance(op, ops.Bias) or inputs[1] in self._stored:
            return [self.exported()]
        if op.scale != 1.0:
            raise GraphError(f"node {self._node.name}: its bias is scaled and has no numbers")
        if op.axis == len(op.shape) - 1:
            return [self.made("Add", *inputs)]
        axes = self.constant("axes", np.arange(1, len(op.shape) - op.axis))
        shaped = f"{self._node.name}/shaped"
        name = f"{self._node.name}/unsqueeze"
        unsqueeze = helper.make_node("Unsqueeze", [inputs[1], axes], [shaped], name)
        return [unsqueeze, self.made("Add", inputs[0], shaped)]

    def _in_turn(self, steps: Sequence[ops.Op]) -> list[onnx.NodeProto]:
        """The ONNX nodes of operators that take the result of the one before each."""
        found, read = list[onnx.NodeProto](), self._node.inputs
        for number, op in enumerate(steps, 1):
            step = replace(self._node, op=op, inputs=read)
            if number < len(steps):
                name = f"{self._node.name}/{number}"
                step, read = replace(step, name=name, output=name), (name,)
            found.append(_Exporter(step, self._stored).exported())
        return found

    def exported(self) -> onnx.NodeProto:
        op, inputs = self._node.op, self._node.inputs
        match op:
            case ops.Unary() | ops.Binary() | ops.Bias() | ops.BatchNorm():
                return self._elementwise(op)
            case ops.Conv2d():
                return self.made(
                    "Conv", *inputs, kernel_shape=op.kernel, strides=op.stride, pads=op.padding,
                    dilations=op.dilation, group=op.groups,
                )  # fmt: skip
            case ops.Gemm():
                turned = {"transA": int(op.transpose_a), "transB": int(op.transpose_b)}
                return self.made("Gemm", *inputs, **turned, alpha=op.alpha, beta=op.beta)
            case ops.Pool2d():
                kind = "MaxPool" if op.reduction == "max" else "AveragePool"
                return self.made(kind, *inputs, **_window(op))
            case ops.Softmax():
                return self.made("Softmax", *inputs, axis=op.axis)
            case ops.LocalResponseNorm():
                numbers = {"size": op.size, "alpha": op.alpha, "beta": op.beta, "bias": op.bias}
                return self.made("LRN", *inputs, **numbers)
            case ops.Reshape():
                return self.made("Reshape", *inputs, self.constant("shape", np.array(op.out_shape)))
            case ops.Reduce("sum"):
                return self.made("ReduceSum", *inputs, self.constant("axes", np.array(op.axes)))
            case ops.Reduce():
                return self.made(f"Reduce{op.function.capitalize()}", *inputs, axes=op.axes)
            case ops.Resize():
                scales = self.constant("scales", np.array(op.factors, np.float32))
                return self.made("Resize", *inputs, "", scales, **_REPEATED)
            case ops.Concat():
                return self.made("Concat", *inputs, axis=op.axis)
            case ops.Transpose():
                return self.made("Transpose", *inputs, perm=op.order)
            case ops.Pad():
                pads = self.constant("pads", np.array([*op.before, *op.after]))
                value = self.constant("value", np.array(op.value, dtype(op.dtype).numpy))
                return self.made("Pad", *inputs, pads, value)
            case ops.Slice():
                return self._slice(op)
            case ops.SpaceToDepth():
                return self.made("SpaceToDepth", *inputs, blocksize=op.block)
            case _:
                raise GraphError(f"node {self._node.name}: {op.describe()} has no form in ONNX")

    def _slice(self, op: ops.Slice) -> onnx.NodeProto:
        numbers = zip(op.start, op.counts, op.step, strict=True)
        ends = [start + (count - 1) * step + 1 for start, count, step in numbers]
        axes = range(len(ends))
        lists = {"starts": op.start, "ends": ends, "axes": axes, "steps": op.step}
        given = [self.constant(name, np.array(x)) for name, x in lists.items()]
        return self.made("Slice", *self._node.inputs, *given)

    def _elementwise(self, op: ops.Unary | ops.Binary | ops.Bias | ops.BatchNorm) -> onnx.NodeProto:
        inputs, element = self._node.inputs, dtype(op.dtype).numpy
        match op:
            case ops.BatchNorm():
                return self.made("BatchNormalization", *inputs, epsilon=op.epsilon)
            case ops.Bias():
                along = [-1 if axis == op.axis else 1 for axis in range(len(op.shape))]
                added = op.scale * self._stored[inputs[1]].reshape(along)
                return self.made("Add", inputs[0], self.constant("bias", added.astype(element)))
            case ops.Unary("clip"):
                ends = {"least": op.alpha, "most": op.beta}
                given = [self.constant(n, np.array(end, element)) for n, end in ends.items()]
                return self.made("Clip", inputs[0], *given)
            case ops.Unary("identity"):
                return self.made("Identity", *inputs)
            case ops.Unary() if op.function in _UNARY:
                kind, names = _UNARY[op.function]
                parameters = zip(names, (op.alpha, op.beta), strict=False)
                return self.made(kind, *inputs, **dict(parameters))
            case ops.Binary("fmod"):
                return self.made("Mod", *inputs, fmod=1)
            case ops.Binary() if op.function in _BINARY:
                return self.made(_BINARY[op.function], *inputs)
            case _:
                raise GraphError(
                    f"node {self._node.name}: {op.function} is no operator of ONNX {OPSET}"
                )


def _parts_of(op: ops.Shuffle) -> Sequence[ops.Op]:
    """The operators that a shuffle stands for: reshape, transpose, reshape and a slice unless it
    takes all.
    """
    shape, axis, parts, kind = op.shape, op.axis, op.parts, op.dtype
    split = (*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :])
    order = [*range(len(split))]
    order[axis : axis + 2] = axis + 1, axis
    turn = ops.Transpose(split, tuple(order), kind)
    steps = [ops.Reshape(shape, split, kind), turn, ops.Reshape(turn.out_shape, shape, kind)]
    if op.out_shape == shape:
        return steps
    start = tuple(op.start * parts if d == axis else 0 for d in range(len(shape)))
    return [*steps, ops.Slice(shape, start, op.out_shape, (1,) * len(shape), kind)]


def _window(op: ops.Pool2d) -> dict[str, Any]:
    found = {
        "kernel_shape": op.kernel,
        "strides": op.stride,
        "pads": op.padding,
        "ceil_mode": int(op.ceil_mode),
    }
    return found | ({"count_include_pad": int(op.count_padding)} if op.reduction != "max" else {})
