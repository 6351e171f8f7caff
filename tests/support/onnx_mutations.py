"""Mutations of ONNX models, each known by a seed and a number, and what becomes of them.

Most change the meaning and keep the form: attributes, inputs, versions, extents, numbers; a few
change bytes.
"""

from __future__ import annotations

import random
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import onnx
import onnxruntime

from support.onnx_backend import bound_inputs, node_tests
from support.onnx_cases import every_case
from tilewright.common.dtypes import dtype
from tilewright.common.errors import InternalError, TilewrightError
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.operators import OPERATORS
from tilewright.graph.graph import Network
from tilewright.ops import LocalResponseNorm

MOST_ELEMENTS = 1 << 20
"""Larger networks are read and not run."""
INTEGERS = (-(2**63), -(2**31), -3, -2, -1, 0, 1, 2, 3, 4, 7, 64, 2**31, 2**62)
NUMBERS = (0.0, -0.0, 1e-45, 0.5, -1.5, 1e30, float("inf"), float("-inf"), float("nan"))
TEXTS = (b"", b"SAME_UPPER", b"VALID", b"CRD", b"\xff", b"NOTSET", b"x" * 300)
Status = Literal["refused", "alike", "ours alone", "too large to run", "theirs died", "theirs hung",
                 "different", "traceback", "died", "hung"]  # fmt: skip
FINDINGS = ("different", "traceback", "died", "hung")


class Judgement(NamedTuple):
    """Outcome of a model; `detail` says more of a finding."""

    status: Status
    detail: str = ""

    @property
    def is_finding(self) -> bool:
        """True for a fault of ours."""
        return self.status in FINDINGS


@cache
def models() -> tuple[bytes, ...]:
    """Models to mutate."""
    return tuple(case.proto.SerializeToString() for case in every_case())


@cache
def node_models() -> tuple[bytes, ...]:
    """One node test of every operator that is read, inputs that it wants to know stored."""
    found: dict[str, bytes] = {}
    for case in node_tests():
        kinds = {node.op_type for node in case.model.graph.node}
        if kinds <= OPERATORS.keys() and not kinds <= found.keys():
            proto = onnx.ModelProto.FromString(case.model.SerializeToString())
            known = {
                name: array for name, array in bound_inputs(case) if array.dtype.kind in "iufb"
            }
            kept = [value for value in proto.graph.input if value.name not in known]
            del proto.graph.input[:]
            proto.graph.input.extend(kept)
            stored = (onnx.numpy_helper.from_array(array, name) for name, array in known.items())
            proto.graph.initializer.extend(stored)
            found |= dict.fromkeys(sorted(kinds), proto.SerializeToString())
    return tuple(dict.fromkeys(found.values()))


def mutated(seed: int, number: int, *, nodes: bool = False) -> bytes:
    """One mutation: one to four changes of one model, or of a node test."""
    chance = random.Random(f"{seed}/{number}")
    proto = onnx.ModelProto.FromString(chance.choice(node_models() if nodes else models()))
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        chance.choice(CHANGES)(chance, proto)
    _outputs(random.Random(f"outputs of {seed}/{number}"), proto)
    content: bytes = proto.SerializeToString()
    return _other_bytes(chance, content) if chance.random() < 0.08 else content


def _attribute(chance: random.Random, proto: Any) -> None:
    """Another value, or none, of an attribute."""
    node = chance.choice(proto.graph.node)
    if not node.attribute:
        return
    item = chance.choice(node.attribute)
    kinds = onnx.AttributeProto
    if item.type == kinds.INTS and item.ints and chance.random() < 0.7:
        item.ints[chance.randrange(len(item.ints))] = chance.choice(INTEGERS)
    elif item.type == kinds.INTS:
        item.ints.extend(chance.choices(INTEGERS, k=chance.randrange(3)))
    elif item.type == kinds.INT:
        item.i = chance.choice(INTEGERS)
    elif item.type == kinds.FLOAT:
        item.f = chance.choice(NUMBERS)
    elif item.type == kinds.STRING:
        item.s = chance.choice(TEXTS)
    if chance.random() < 0.15:
        node.attribute.remove(item)


def _new_attribute(chance: random.Random, proto: Any) -> None:
    """An attribute of an operator's definition, or of another one's."""
    node = chance.choice(proto.graph.node)
    other = chance.choice((node.op_type, "Conv", "MaxPool", "Gemm", "Resize"))
    known = sorted(onnx.defs.get_schema(other).attributes) if onnx.defs.has(other) else []
    name = chance.choice([*known, "axis", "broadcast", "alpha"])
    value = chance.choice((1, 2, -1, 0.5, [1, 1], [2, 2], [0, 1, 0, 1], "SAME_LOWER"))
    kept = [item for item in node.attribute if item.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])


def _inputs(chance: random.Random, proto: Any) -> None:
    """Another input of a node, or one more or less."""
    node = chance.choice(proto.graph.node)
    names = [value.name for value in proto.graph.input]
    names += [tensor.name for tensor in proto.graph.initializer] + ["", "none", "y"]
    place = chance.randrange(len(node.input) + 1)
    if place == len(node.input):
        node.input.append(chance.choice(names))
    elif chance.random() < 0.3:
        del node.input[place]
    else:
        node.input[place] = chance.choice(names)


def _operator(chance: random.Random, proto: Any) -> None:
    """Another operator."""
    node, other = (chance.choice(proto.graph.node) for _ in range(2))
    kinds = ("Add", "Sub", "Mul", "Div", "Max", "Relu", "Clip", "Softmax", "Reshape", "Squeeze",
             "Unsqueeze", "Concat", "Flatten", "Gemm", "MatMul", "Transpose", "Shape", "Cast",
             "Pow", "Einsum", "Identity", "Slice", "Gather", other.op_type)  # fmt: skip
    node.op_type = chance.choice(kinds)


def _opset(chance: random.Random, proto: Any) -> None:
    """Another operator set."""
    proto.opset_import[0].version = chance.choice((*range(-1, 30), 2**40))


def _extent(chance: random.Random, proto: Any) -> None:
    """Another extent of an input."""
    if not proto.graph.input:
        return
    shape = chance.choice(proto.graph.input).type.tensor_type.shape
    if not shape.dim or chance.random() < 0.2:
        shape.dim.add().dim_value = chance.choice((1, 1, 2, 0, -1))
        return
    extent = chance.choice(shape.dim)
    extent.dim_value = chance.choice((1, 1, 2, 2, 3, 3, 4, 5, 8, *INTEGERS))


def _element_type(chance: random.Random, proto: Any) -> None:
    """Another element type of an input or a stored tensor."""
    kind = chance.choice((1, 1, 6, 7, 9, 10, 11, 8, 0, 99))
    if proto.graph.initializer and chance.random() < 0.5:
        chance.choice(proto.graph.initializer).data_type = kind
    elif proto.graph.input:
        chance.choice(proto.graph.input).type.tensor_type.elem_type = kind


def _stored(chance: random.Random, proto: Any) -> None:
    """Other numbers of a stored tensor, or another shape."""
    if not proto.graph.initializer:
        return
    tensor = chance.choice(proto.graph.initializer)
    if chance.random() < 0.4:
        _one_number(chance, proto, tensor)
    elif tensor.dims and chance.random() < 0.5:
        tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice(INTEGERS)
    else:
        tensor.dims.append(chance.choice((1, 1, 2, 0)))


def _one_number(chance: random.Random, proto: Any, tensor: Any) -> None:
    """Another number of a tensor that still holds as many as its shape says."""
    kinds = {1: _values(proto), 7: INTEGERS}
    size = len(tensor.raw_data) // {1: 4, 7: 8}.get(tensor.data_type, 1)
    if tensor.data_type in kinds and size and size == np.prod(tensor.dims, dtype=object):
        array = onnx.numpy_helper.to_array(tensor).copy()
        array.reshape(-1)[chance.randrange(size)] = chance.choice(kinds[tensor.data_type])
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _values(proto: Any) -> tuple[float, ...]:
    """Normalisation by infinite statistics is what the order of its operations makes of it."""
    if any(node.op_type == "BatchNormalization" for node in proto.graph.node):
        return (0.5, 2.0, -1.5)
    return NUMBERS


def _order(chance: random.Random, proto: Any) -> None:
    """Nodes in another order, a node twice, another output."""
    nodes = list(proto.graph.node)
    if chance.random() < 0.5:
        chance.shuffle(nodes)
    else:
        nodes.append(chance.choice(nodes))
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    if chance.random() < 0.3:
        names = [name for node in nodes for name in (*node.input, *node.output)]
        value = onnx.helper.make_tensor_value_info(chance.choice(names or ["y"]), 1, None)
        proto.graph.output.append(value)


def _outputs(chance: random.Random, proto: Any) -> None:
    """Of one model in twenty-five no outputs, one of them twice, or another shape; by chances of
    their own, so that all other mutations of a number stay what they were.
    """
    outputs = proto.graph.output
    if not outputs or chance.random() > 0.04:
        return
    what = chance.choice(("none", "twice", "shape"))
    if what == "none":
        del outputs[:]
    elif what == "twice":
        outputs.append(chance.choice(outputs))
    else:
        shape = chance.choice(outputs).type.tensor_type.shape
        shape.dim.add().dim_value = chance.choice(INTEGERS)


CHANGES: tuple[Callable[[random.Random, Any], None], ...] = (
    _attribute, _attribute, _attribute, _new_attribute, _new_attribute, _inputs, _operator, _opset,
    _extent, _extent, _element_type, _stored, _stored, _order,
)  # fmt: skip


def _other_bytes(chance: random.Random, content: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged[: chance.randrange(1, len(damaged))] if chance.random() < 0.2 else damaged)


def judged(content: bytes, reached: Callable[[str], None] = lambda _: None) -> Judgement:
    """Judges a model; `reached` is told who is at work."""
    with tempfile.TemporaryDirectory() as name:
        reached("reading")
        try:
            network = network_of(content, Path(name))
            sizes = [np.prod(t.shape, dtype=float) for t in network.tensors.values()]
            if max(sizes) > MOST_ELEMENTS or network.flops > 1 << 30:
                return Judgement("too large to run")
            inputs = numbers_for(network)
            reached("running")
            found = network.evaluate(inputs)
        except InternalError:
            return Judgement("traceback", traceback.format_exc())
        except TilewrightError as error:
            return Judgement("refused", str(error))
        except Exception:  # whatever is no refusal of ours is a finding
            return Judgement("traceback", traceback.format_exc())
    reached("theirs")
    return _compared(content, network, inputs, found)


def network_of(content: bytes, folder: Path) -> Network:
    """Reads a model by way of a file."""
    path = folder / "m.onnx"
    path.write_bytes(content)
    return load_onnx(path)


def numbers_for(network: Network) -> dict[str, Any]:
    """Whole and half numbers, of which sums are exact."""
    generator = np.random.default_rng(0)
    return {
        t.name: (generator.integers(-6, 7, t.shape) / 2).astype(dtype(t.dtype).numpy)
        for t in network.inputs
    }


def _compared(
    content: bytes, network: Network, inputs: dict[str, Any], found: dict[str, Any]
) -> Judgement:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        expected = session.run(list(network.outputs), inputs)
    except Exception:  # what it raises has no common base, and is none of ours
        return Judgement("ours alone")
    if _cancels(network) or _is_undefined(content):
        return Judgement("ours alone")
    for name, array in zip(network.outputs, expected, strict=True):
        try:
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            np.testing.assert_allclose(_at_an_end(found[name], array), array, 1e-4, 1e-4)
        except AssertionError as error:
            return Judgement("different", f"{name}: {error}")
    return Judgement("alike")


def _at_an_end(found: Any, expected: Any) -> Any:
    """Results, those alike where a conversion to integers leaves their range, as 0 to the power of
    -1 does: onnxruntime's is then the least number, ours the end that is nearer.
    """
    if expected.dtype.kind != "i":
        return found
    ends = np.iinfo(expected.dtype)
    return np.where((expected == ends.min) & (found == ends.max), expected, found)


def _is_undefined(content: bytes) -> bool:
    """True where the standard leaves open what is right: updates of one place twice, and 0 / 0;
    and where onnxruntime magnifies a rounding: it takes 1 from what rounds to 1, and its sigmoid
    of large negative numbers, by which mutations divide, is right to 1e-7 of 1 and not of itself.
    """
    nodes = onnx.ModelProto.FromString(content).graph.node
    sigmoids = {node.output[0] for node in nodes if node.op_type == "Sigmoid" and node.output}
    for node in nodes:
        given = {item.name: item for item in node.attribute}
        scatters = node.op_type.startswith("Scatter") and "reduction" not in given
        alpha = abs(given["alpha"].f) if "alpha" in given else 1.0
        divides = node.op_type == "Div" and not sigmoids.isdisjoint(node.input[1:])
        if scatters or divides or (node.op_type == "Celu" and not 0 < alpha < 1e4):
            return True
    return False


def _cancels(network: Network) -> bool:
    """True where onnxruntime subtracts numbers that rounding makes differ: it moves the sum of
    squares of a local response normalisation along the channels, and a large alpha leaves negative
    sums, no bias 0 / 0.
    """
    norms = (node.op for node in network.nodes if isinstance(node.op, LocalResponseNorm))
    return any(abs(op.alpha) > 1e6 or not op.bias for op in norms)
