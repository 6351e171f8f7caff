"""ONNX's elementwise operators: functions of one tensor, and of several that are broadcast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tilewright.common.dtypes import FLOATS, dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import (
    CONSUMED,
    Attribute,
    Input,
    Operator,
    Translator,
    X,
)
from tilewright.graph.frontends.onnx.importer import EVERY_TYPE, Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.frontends.onnx.shapes import aligned, aligned_at
from tilewright.ops import Binary, Op, Reshape, Unary
from tilewright.ops.op import Shape

_FIRST_TYPES = (1, 6, 13)
_RECENT = (1, 6, 22)


def _unary(
    importer: Importer, node: OnnxNode, *, function: str, parameters: tuple[str, ...] = ()
) -> None:
    """A function whose parameters are the attributes of these names."""
    if not importer.is_float:
        x = importer.operand(node, 0)
        importer.emit(node, importer.mapped(f"{function}(x0)", x), x)
        return
    alpha, beta = (*map(node.number, parameters), 0.0, 0.0)[:2]
    op = Unary(function, importer.shape(node, 0), alpha, beta, importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _identity(importer: Importer, node: OnnxNode) -> None:
    x = importer.operand(node, 0)
    if dtype(importer.dtype) in FLOATS:
        importer.emit(node, Unary("identity", importer.builder.shape(x), dtype=importer.dtype), x)
    else:
        importer.emit(node, importer.mapped("x0", x), x)


def _gelu(importer: Importer, node: OnnxNode) -> None:
    """By the error function, or by tanh, which is near it."""
    exact = node.text("approximate") == "none"
    _unary(importer, node, function="gelu" if exact else "gelu_tanh")


def _dropout(importer: Importer, node: OnnxNode) -> None:
    """An identity: inference drops nothing."""
    if node.has_input(2) and bool(importer.constant(node, 2).any()):
        raise GraphError(f"{node.title()}: training_mode = True is not supported, only False")
    _identity(importer, node)
    if len(node.outputs) > 1 and node.outputs[1]:
        kept = np.ones(importer.shape(node, 0), np.bool_)
        importer.constants[node.outputs[1]] = kept


def _clip(importer: Importer, node: OnnxNode) -> None:
    """Bounds are attributes up to operator set 10 and inputs from 11 on; both are optional.

    Without a bound the numbers end where those of the element type do.
    """
    if not importer.is_float or _has_computed_bounds(importer, node):
        _clip_by_tensors(importer, node)
        return
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


def _has_computed_bounds(importer: Importer, node: OnnxNode) -> bool:
    return any(node.has_input(i) and node.inputs[i] not in importer.constants for i in (1, 2))


def _clip_by_tensors(importer: Importer, node: OnnxNode) -> None:
    """Bounds that are computed, and those of integers."""
    names, body = [importer.operand(node, 0)], "x0"
    for index, function in ((1, "max"), (2, "min")):
        if node.has_input(index):
            body = f"{function}({body}, x{len(names)})"
            names.append(importer.operand(node, index))
    importer.emit(node, importer.mapped(body, *names), *names)


def _along_channels(node: OnnxNode, x: Shape, slope: Shape) -> Shape:
    """One slope for all elements, or for each channel."""
    return slope if slope == (1,) else aligned_at(node, x, slope, axis=1)


def _binary(
    importer: Importer,
    node: OnnxNode,
    *,
    function: str,
    along: Callable[[OnnxNode, Shape, Shape], Shape] = aligned,
) -> None:
    """A function of two tensors; up to operator set 6 the second is moved along the first."""
    a, b = importer.operand(node, 0), importer.operand(node, 1)
    a_shape, b_shape = importer.builder.shape(a), importer.builder.shape(b)
    if node.version < 7 and (wanted := along(node, a_shape, b_shape)) != b_shape:
        if b in importer.constants:
            b = importer.use(importer.reshaped_constant(b, wanted), node.title())
        else:
            op = Reshape(b_shape, wanted, importer.dtype)
            b = importer.step(node, op, b, suffix="_along")
        b_shape = wanted
    if importer.is_float:
        importer.emit(node, Binary(function, a_shape, b_shape, importer.dtype), a, b)
    else:
        body = _INTEGRAL.get(function, f"{function}(x0, x1)")
        importer.emit(node, importer.mapped(body, a, b), a, b)


_INTEGRAL = {"div": "quo(x0, x1)", "prelu": "x1 * x0 if x0 < 0 else x0"}
"""Expressions of integers in place of functions of floats."""


def _mod(importer: Importer, node: OnnxNode) -> None:
    """The remainder with the sign of the dividend for `fmod`, else with that of the divisor."""
    a, b = importer.operand(node, 0), importer.operand(node, 1)
    by_dividend = bool(node.integer("fmod"))
    if importer.is_float and by_dividend:
        _binary(importer, node, function="fmod")
        return
    of_integers = "rem(x0, x1)" if by_dividend else "rem_floor(x0, x1)"
    body = "x0 % x1" if importer.is_float else of_integers
    importer.emit(node, importer.mapped(body, a, b), a, b)


def _pow(importer: Importer, node: OnnxNode) -> None:
    """Powers of floats, and of integers in doubles, in the type of the base."""
    a, b = (importer.operand(node, i, EVERY_TYPE) for i in (0, 1))
    kinds = [importer.builder.element_type(name) for name in (a, b)]
    if kinds == [importer.dtype] * 2 and importer.is_float:
        shapes = importer.builder.shape(a), importer.builder.shape(b)
        importer.emit(node, Binary("pow", *shapes, importer.dtype), a, b)
        return
    single = importer.is_float and importer.dtype == "f32" and kinds[1] in ("f32", "i32", "i64")
    computed = "f32" if single and kinds[1] == "f32" else "f64"
    op = importer.mapped("pow(x0, x1)", a, b, computed=computed, result=kinds[0])
    importer.emit(node, op, a, b)


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
        op: Op = importer.mapped(f"{function}(x0, x1)", result, right)
        if importer.is_float:
            op = Binary(function, *pair, importer.dtype)
        if index == len(operands) - 1:
            importer.emit(node, op, result, right)
        else:
            result = importer.step(node, op, result, right, suffix=f"_{index}")


def _mean(importer: Importer, node: OnnxNode) -> None:
    """The mean of a list of tensors."""
    names = [importer.operand(node, index) for index in range(len(node.inputs))]
    total = " + ".join(f"x{i}" for i in range(len(names)))
    importer.emit(node, importer.mapped(f"({total}) / {len(names)}", *names), *names)


@dataclass(frozen=True)
class OfOne:
    """An operator of ONNX that is a function of one tensor: since which versions, which function,
    and the attributes that are its parameters, with their defaults.
    """

    kind: str
    versions: tuple[int, ...]
    function: str
    parameters: tuple[tuple[str, float], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its attributes."""
        return tuple(name for name, _ in self.parameters)

    def operator(self) -> Operator:
        """The declaration that the front end reads."""
        attributes = [Attribute(name, "number", default) for name, default in self.parameters]
        if self.versions[:2] == (1, 6):
            attributes.append(CONSUMED)
        translate = partial(_unary, function=self.function, parameters=self.names)
        x = Input("X", elements="number")
        return Operator(self.kind, self.versions, (x,), tuple(attributes), translate)


def _of_two(
    kind: str,
    function: str,
    *,
    versions: tuple[int, ...] = (1, 6, 7, 13, 14),
    translate: Translator | None = None,
) -> Operator:
    attributes = [
        Attribute("broadcast", "integer", 0, (0, 1), until=6),
        Attribute("axis", "integer", until=6),
    ]
    if 6 in versions:
        attributes.append(CONSUMED)
    inputs = (Input("A", elements="number"), Input("B", elements="number"))
    translate = translate or partial(_binary, function=function)
    return Operator(kind, versions, inputs, tuple(attributes), translate)


def _of_many(kind: str, versions: tuple[int, ...], function: str) -> Operator:
    translate = partial(_variadic, function=function)
    x = Input("X", elements="number")
    return Operator(kind, versions, (x,), (CONSUMED,), translate, variadic=True)


OF_ONE = (
    OfOne("Abs", _FIRST_TYPES, "abs"),
    OfOne("Acos", (7, 22), "acos"),
    OfOne("Acosh", (9, 22), "acosh"),
    OfOne("Asin", (7, 22), "asin"),
    OfOne("Asinh", (9, 22), "asinh"),
    OfOne("Atan", (7, 22), "atan"),
    OfOne("Atanh", (9, 22), "atanh"),
    OfOne("Ceil", _FIRST_TYPES, "ceil"),
    OfOne("Celu", (12, 28), "celu", (("alpha", 1.0),)),
    OfOne("Cos", (7, 22), "cos"),
    OfOne("Cosh", (9, 22), "cosh"),
    OfOne("Elu", _RECENT, "elu", (("alpha", 1.0),)),
    OfOne("Erf", (9, 13), "erf"),
    OfOne("Exp", _FIRST_TYPES, "exp"),
    OfOne("Floor", _FIRST_TYPES, "floor"),
    OfOne("HardSigmoid", _RECENT, "hard_sigmoid", (("alpha", 0.2), ("beta", 0.5))),
    OfOne("HardSwish", (14, 22), "hard_swish"),
    OfOne("LeakyRelu", (1, 6, 16), "leaky_relu", (("alpha", 0.01),)),
    OfOne("Log", _FIRST_TYPES, "log"),
    OfOne("Mish", (18, 22), "mish"),
    OfOne("Neg", _FIRST_TYPES, "neg"),
    OfOne("Reciprocal", _FIRST_TYPES, "reciprocal"),
    OfOne("Relu", (1, 6, 13, 14), "relu"),
    OfOne("Round", (11, 22), "round"),
    OfOne("Shrink", (9,), "shrink", (("lambd", 0.5), ("bias", 0.0))),
    OfOne("Sigmoid", _FIRST_TYPES, "sigmoid"),
    OfOne("Sign", (9, 13), "sign"),
    OfOne("Sin", (7, 22), "sin"),
    OfOne("Sinh", (9, 22), "sinh"),
    OfOne("Softplus", (1, 22), "softplus"),
    OfOne("Softsign", (1, 22), "softsign"),
    OfOne("Sqrt", _FIRST_TYPES, "sqrt"),
    OfOne("Swish", (24,), "swish", (("alpha", 1.0),)),
    OfOne("Tan", (7, 22), "tan"),
    OfOne("Tanh", _FIRST_TYPES, "tanh"),
    OfOne("ThresholdedRelu", (10, 22), "thresholded_relu", (("alpha", 1.0),)),
)

ELEMENTWISE = (
    *(row.operator() for row in OF_ONE),
    _of_two("Add", "add"),
    Operator(
        "Clip",
        (1, 6, 11, 12, 13),
        (
            Input("X", elements="number"),
            *(Input(name, "tensor", "number", True, since=11) for name in ("min", "max")),
        ),
        (*(Attribute(name, "limit", until=10) for name in ("min", "max")), CONSUMED),
        _clip,
    ),
    _of_two("Div", "div"),
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
        many=True,
        limits="inference: `training_mode` must be false",
    ),
    Operator(
        "Gelu", (20,), (X,), (Attribute("approximate", "text", "none", ("none", "tanh")),), _gelu
    ),
    Operator(
        "Identity",
        (1, 13, 14, 16, 19, 21, 23, 24, 25),
        (Input("X", elements="any"),),
        (),
        _identity,
        lambda node, x: x,
    ),
    _of_many("Max", (1, 6, 8, 12, 13), "max"),
    Operator("Mean", (1, 6, 8, 13), (X,), (CONSUMED,), _mean, variadic=True),
    _of_many("Min", (1, 6, 8, 12, 13), "min"),
    Operator(
        "Mod",
        (10, 13, 28),
        (Input("A", elements="number"), Input("B", elements="number")),
        (Attribute("fmod", "integer", 0, (0, 1)),),
        _mod,
    ),
    _of_two("Mul", "mul"),
    Operator(
        "PRelu",
        (1, 6, 7, 9, 16),
        (Input("X", elements="number"), Input("slope", elements="number")),
        (CONSUMED,),
        partial(_binary, function="prelu", along=_along_channels),
    ),
    _of_two("Pow", "pow", versions=(1, 7, 12, 13, 15), translate=_pow),
    Operator(
        "Selu",
        (1, 6, 22),
        (X,),
        (
            Attribute("alpha", "number", 1.673200011253357, until=5),
            Attribute("alpha", "number", 1.6732631921768188, since=6),
            Attribute("gamma", "number", 1.0506999492645264, until=5),
            Attribute("gamma", "number", 1.0507010221481323, since=6),
            CONSUMED,
        ),
        partial(_unary, function="selu", parameters=("alpha", "gamma")),
    ),
    _of_two("Sub", "sub"),
    _of_many("Sum", (1, 6, 8, 13), "add"),
)
