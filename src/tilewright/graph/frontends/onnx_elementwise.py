"""ONNX's elementwise operators: functions of one tensor, and of several that are broadcast."""

from __future__ import annotations

from functools import partial

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends import onnx_fold as fold
from tilewright.graph.frontends.onnx_declare import (
    CONSUMED,
    Attribute,
    Fold,
    Input,
    Operator,
    X,
)
from tilewright.graph.frontends.onnx_importer import Importer
from tilewright.graph.frontends.onnx_model import OnnxNode
from tilewright.graph.frontends.onnx_shapes import aligned
from tilewright.ops import Binary, Reshape, Unary

_FIRST_TYPES = (1, 6, 13)
_RECENT = (1, 6, 22)


def _unary(importer: Importer, node: OnnxNode, *, function: str) -> None:
    """A function whose parameters, if any, are the attributes alpha and beta."""
    alpha, beta = (
        node.number(name) if name in node.attributes else 0.0 for name in ("alpha", "beta")
    )
    op = Unary(function, importer.shape(node, 0), alpha, beta, importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _identity(importer: Importer, node: OnnxNode) -> None:
    op = Unary("identity", importer.shape(node, 0), dtype=importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _dropout(importer: Importer, node: OnnxNode) -> None:
    """Nothing is dropped at inference."""
    if node.has_input(2) and bool(importer.constant(node, 2).any()):
        raise GraphError(f"{node.title()}: training_mode = True is not supported, only False")
    _identity(importer, node)


def _clip(importer: Importer, node: OnnxNode) -> None:
    """Bounds are attributes up to operator set 10 and inputs from 11 on; both are optional.

    Without a bound the numbers end where those of the element type do.
    """
    ends = np.finfo(dtype(importer.dtype).numpy)
    limits = [float(ends.min), float(ends.max)]
    for index, name in enumerate(("min", "max")):
        if node.has_input(index + 1):
            constant = importer.constant(node, index + 1)
            if constant.size != 1 or constant.dtype.kind != "f" or np.isnan(constant).any():
                raise GraphError(f"{node.title()}: {name} must be one number that is not nan")
            limits[index] = float(constant.reshape(()))
        elif name in node.attributes:
            limits[index] = node.number(name)
    op = Unary("clip", importer.shape(node, 0), limits[0], limits[1], importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _binary(importer: Importer, node: OnnxNode, *, function: str) -> None:
    """A function of two tensors; up to operator set 6 the second is moved along the first."""
    a, b = importer.operand(node, 0), importer.operand(node, 1)
    a_shape, b_shape = importer.builder.shape(a), importer.builder.shape(b)
    if node.version < 7 and (wanted := aligned(node, a_shape, b_shape)) != b_shape:
        if b in importer.constants:
            b = importer.use(importer.reshaped_constant(b, wanted), node.title())
        else:
            op = Reshape(b_shape, wanted, importer.dtype)
            b = importer.step(node, op, b, suffix="_along")
        b_shape = wanted
    importer.emit(node, Binary(function, a_shape, b_shape, importer.dtype), a, b)


def _variadic(importer: Importer, node: OnnxNode, *, function: str) -> None:
    """A function of a list of tensors from left to right; of one shape up to operator set 6."""
    operands = [importer.operand(node, index) for index in range(len(node.inputs))]
    shapes = {importer.builder.shape(name) for name in operands}
    if node.version < 8 and len(shapes) > 1:
        raise GraphError(f"{node.title()}: its operands differ in shape: {sorted(shapes)}")
    if len(operands) == 1:
        _identity(importer, node)
        return
    result = operands[0]
    for index, right in enumerate(operands[1:], 1):
        pair = importer.builder.shape(result), importer.builder.shape(right)
        op = Binary(function, *pair, importer.dtype)
        if index == len(operands) - 1:
            importer.emit(node, op, result, right)
        else:
            result = importer.step(node, op, result, right, suffix=f"_{index}")


def _of_one(
    kind: str, versions: tuple[int, ...], function: str, *parameters: tuple[str, float]
) -> Operator:
    attributes = [Attribute(name, "number", default) for name, default in parameters]
    if 6 in versions:
        attributes.append(CONSUMED)
    translate = partial(_unary, function=function)
    return Operator(kind, versions, (X,), tuple(attributes), translate)


def _of_two(kind: str, function: str, folded: Fold) -> Operator:
    attributes = (
        Attribute("broadcast", "integer", 0, (0, 1), until=6),
        Attribute("axis", "integer", until=6),
        CONSUMED,
    )
    inputs = (Input("A", elements="any"), Input("B", elements="any"))
    translate = partial(_binary, function=function)
    return Operator(kind, (1, 6, 7, 13, 14), inputs, attributes, translate, folded)


def _of_many(kind: str, versions: tuple[int, ...], function: str) -> Operator:
    translate = partial(_variadic, function=function)
    return Operator(kind, versions, (X,), (CONSUMED,), translate, variadic=True)


ELEMENTWISE = (
    _of_one("Abs", _FIRST_TYPES, "abs"),
    _of_two("Add", "add", fold.add),
    _of_one("Ceil", _FIRST_TYPES, "ceil"),
    Operator(
        "Clip",
        (1, 6, 11, 12, 13),
        (X, *(Input(name, "constant", optional=True, since=11) for name in ("min", "max"))),
        (*(Attribute(name, "limit", until=10) for name in ("min", "max")), CONSUMED),
        _clip,
    ),
    _of_two("Div", "div", fold.divide),
    Operator(
        "Dropout",
        (1, 6, 7, 10, 12, 13, 22),
        (
            X,
            Input("ratio", "constant", optional=True, since=12),
            Input("training_mode", "constant", "bool", optional=True, since=12),
        ),
        (
            Attribute("is_test", "integer", 0, (1,), until=6),
            Attribute("ratio", "number", 0.5, until=11),
            Attribute("seed", "integer", since=12),
            CONSUMED,
        ),
        _dropout,
        limits="inference: `training_mode` must be false",
    ),
    _of_one("Elu", _RECENT, "elu", ("alpha", 1.0)),
    _of_one("Exp", _FIRST_TYPES, "exp"),
    _of_one("Floor", _FIRST_TYPES, "floor"),
    _of_one("HardSigmoid", _RECENT, "hard_sigmoid", ("alpha", 0.2), ("beta", 0.5)),
    Operator(
        "Identity",
        (1, 13, 14, 16, 19, 21, 23, 24, 25),
        (Input("X", elements="any"),),
        (),
        _identity,
        lambda node, x: x,
    ),
    _of_one("LeakyRelu", (1, 6, 16), "leaky_relu", ("alpha", 0.01)),
    _of_one("Log", _FIRST_TYPES, "log"),
    _of_many("Max", (1, 6, 8, 12, 13), "max"),
    _of_many("Min", (1, 6, 8, 12, 13), "min"),
    _of_two("Mul", "mul", fold.multiply),
    _of_one("Neg", _FIRST_TYPES, "neg"),
    _of_one("Reciprocal", _FIRST_TYPES, "reciprocal"),
    _of_one("Relu", (1, 6, 13, 14), "relu"),
    _of_one("Sigmoid", _FIRST_TYPES, "sigmoid"),
    _of_one("Sign", (9, 13), "sign"),
    _of_one("Softplus", (1, 22), "softplus"),
    _of_one("Sqrt", _FIRST_TYPES, "sqrt"),
    _of_two("Sub", "sub", fold.subtract),
    _of_many("Sum", (1, 6, 8, 13), "add"),
    _of_one("Tanh", _FIRST_TYPES, "tanh"),
)
