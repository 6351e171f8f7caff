"""ONNX's elementwise operators: expressions over broadcast tensors, and conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from tilewright.common.dtypes import BOOL, FLOATS, dtype
from tilewright.graph.frontends.onnx.declare import NAMED, TYPES, Operator
from tilewright.graph.frontends.onnx.importer import EVERY_TYPE, Importer, converting
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.frontends.onnx.shapes import aligned, aligned_at
from tilewright.ops import Binary, Unary
from tilewright.ops.op import Shape

OF_ONE = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "Ceil": "ceil", "Celu": "celu alpha", "Cos": "cos",
    "Cosh": "cosh", "Elu": "elu alpha", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "HardSigmoid": "hard_sigmoid alpha beta", "HardSwish": "hard_swish",
    "LeakyRelu": "leaky_relu alpha", "Log": "log", "Mish": "mish", "Neg": "neg",
    "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round", "Selu": "selu alpha gamma",
    "Shrink": "shrink lambd bias", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin",
    "Sinh": "sinh", "Softplus": "softplus", "Softsign": "softsign", "Sqrt": "sqrt",
    "Swish": "swish alpha", "Tan": "tan", "Tanh": "tanh",
    "ThresholdedRelu": "thresholded_relu alpha",
}  # fmt: skip
"""Functions of one tensor: ONNX's name, our name, and the attributes that are parameters."""
_EXPRESSIONS = {
    "And": "x0 and x1", "BitwiseAnd": "x0 & x1", "BitwiseNot": "~x0", "BitwiseOr": "x0 | x1",
    "BitwiseXor": "x0 ^ x1", "Equal": "x0 == x1", "Greater": "x0 > x1",
    "GreaterOrEqual": "x0 >= x1", "IsNaN": "x0 != x0", "Less": "x0 < x1",
    "LessOrEqual": "x0 <= x1", "Not": "not x0", "Or": "x0 or x1", "Xor": "x0 != x1",
}  # fmt: skip
"""Expressions over all inputs; results are truth values, except for functions of bits."""
_OF_TWO = {
    "Add": ("add", "x0 + x1"), "Div": ("div", "quo(x0, x1)"), "Mul": ("mul", "x0 * x1"),
    "PRelu": ("prelu", "x1 * x0 if x0 < 0 else x0"), "Sub": ("sub", "x0 - x1"),
}  # fmt: skip
"""The function on floats, and the expression on integers."""
_OF_MANY = {
    "Max": ("max", "max({0}, {1})"), "Mean": ("", "{0} + {1}"), "Min": ("min", "min({0}, {1})"),
    "Sum": ("add", "{0} + {1}"),
}  # fmt: skip


def _unary(at: Importer, *, function: str, parameters: tuple[str, ...] = ()) -> None:
    """A function of one tensor, with these attributes as parameters."""
    if not at.is_float:
        unsigned = function == "sign" and dtype(at.dtype).limits[0] == 0
        at.map("min(x0, 1)" if unsigned else f"{function}(x0)", at.operand(0))
        return
    alpha, beta = (*map(at.node.number, parameters), 0.0, 0.0)[:2]
    at.emit(Unary(function, at.shape(0), alpha, beta, at.dtype), at.operand(0))


def _identity(at: Importer) -> None:
    plain = dtype(at.dtype) in FLOATS
    op = Unary("identity", at.shape(0), dtype=at.dtype) if plain else None
    at.emit(op or at.mapped("x0", at.operand(0)), at.operand(0))


def _gelu(at: Importer) -> None:
    """Gelu by the error function, or approximated by tanh."""
    _unary(at, function="gelu" if at.node.text("approximate") == "none" else "gelu_tanh")


def _dropout(at: Importer) -> None:
    """An identity, since inference drops nothing."""
    if at.node.has_input(2) and bool(at.constant(2).any()):
        raise at.wrong("training_mode = True is not supported, only False")
    _identity(at)
    if len(at.node.outputs) > 1 and at.node.outputs[1]:
        at.constants[at.node.outputs[1]] = np.ones(at.shape(0), np.bool_)


def _clip(at: Importer) -> None:
    """Clip; optional bounds are attributes up to operator set 10 and inputs from 11 on.

    A missing bound is the limit of the element type.
    """
    given = [index for index in (1, 2) if at.node.has_input(index)]
    if not at.is_float or any(at.node.inputs[index] not in at.constants for index in given):
        body = "x0"
        for place, index in enumerate(given, 1):
            body = f"{'max' if index == 1 else 'min'}({body}, x{place})"
        at.map(body, *(at.operand(index) for index in (0, *given)))
        return
    ends = np.finfo(dtype(at.dtype).numpy)
    limits = [float(ends.min), float(ends.max)]
    for index, name in enumerate(("min", "max")):
        if index + 1 in given:
            constant = at.constant(index + 1)
            if constant.size != 1 or constant.dtype.kind != "f" or np.isnan(constant).any():
                raise at.wrong(f"{name} must be one number that is not nan")
            limits[index] = float(constant.reshape(()))
        elif name in at.node.attributes:
            limits[index] = at.node.number(name)
    at.emit(Unary("clip", at.shape(0), limits[0], limits[1], at.dtype), at.operand(0))


def _along_channels(node: OnnxNode, x: Shape, slope: Shape) -> Shape:
    """PRelu: one slope for all elements, or one per channel."""
    return slope if slope == (1,) else aligned_at(node, x, slope, axis=1)


def _together(
    at: Importer, along: Callable[[OnnxNode, Shape, Shape], Shape] = aligned
) -> list[str]:
    """Both operands; up to operator set 6 the second is aligned with the first explicitly."""
    names = at.operands()
    if at.node.version < 7 and len(names) == 2:
        wanted = along(at.node, *map(at.builder.shape, names))
        names[1] = at.reshaped(names[1], wanted, "_along")
    return names


def _expressed(at: Importer, *, body: str, truth: bool = False) -> None:
    """An expression over all inputs, in their type."""
    at.map(body, *_together(at), result=BOOL.name if truth else "")


def _binary(at: Importer, *, function: str, body: str) -> None:
    """A function of two tensors of floats, or an expression over integers."""
    names = _together(at, _along_channels if function == "prelu" else aligned)
    a, b = map(at.builder.shape, names)
    op = at.is_float and Binary(function, a, b, at.dtype)
    at.emit(op or at.mapped(body, *names), *names)


def _shifted(at: Importer) -> None:
    """A shift to the left or right."""
    _expressed(at, body="x0 << x1" if at.node.text("direction") == "LEFT" else "x0 >> x1")


def _is_infinite(at: Importer) -> None:
    """True for infinities of the requested signs."""
    signs = {"positive": "inf", "negative": "-inf"}
    tests = [f"x0 == {end}" for sign, end in signs.items() if at.node.flag(f"detect_{sign}")]
    _expressed(at, body=" or ".join(tests) or "0 * x0 == 1", truth=True)


def _mod(at: Importer) -> None:
    """The remainder with the sign of the dividend for `fmod`, else of the divisor."""
    if at.is_float and at.node.flag("fmod"):
        _binary(at, function="fmod", body="")
    else:
        of_integers = "rem(x0, x1)" if at.node.flag("fmod") else "rem_floor(x0, x1)"
        _expressed(at, body="x0 % x1" if at.is_float else of_integers)


def _pow(at: Importer) -> None:
    """Powers in the type of the base; integers are computed in doubles."""
    kinds = [at.element_type(at.node.input(i)) for i in (0, 1)]
    if kinds == [at.dtype] * 2 and at.is_float:
        _binary(at, function="pow", body="")
        return
    single = kinds[1] == "f32" and at.dtype == "f32"
    names = at.operands(EVERY_TYPE)
    at.map("pow(x0, x1)", *names, computed="f32" if single else "f64", result=kinds[0])


def _variadic(at: Importer, *, function: str, joined: str) -> None:
    """A function folded over a list of tensors; up to operator set 6 their shapes are equal."""
    names = at.operands()
    shapes = [at.builder.shape(name) for name in names]
    if at.node.version < 8 and len(set(shapes)) > 1:
        raise at.wrong(f"its operands differ in shape: {sorted(set(shapes))}")
    if len(names) == 2 and at.is_float and function:
        at.emit(Binary(function, shapes[0], shapes[1], at.dtype), *names)
        return
    body = reduce(joined.format, (f"x{i}" for i in range(len(names))))
    at.map(body if function else f"({body}) / {len(names)}", *names)


def _where(at: Importer) -> None:
    """Where: each element from one of two tensors, by a condition."""
    kind = at.element_type(at.node.input(1))
    names = at.operand(0, (BOOL.name,)), at.operand(1, (kind,)), at.operand(2, (kind,))
    computed = dtype(kind).computed.name
    at.map("x1 if x0 else x2", *names, computed=computed, result=kind)


def _cast(at: Importer) -> None:
    """Cast to a type given by a number, by a name up to operator set 5, or by another tensor."""
    if at.node.kind == "CastLike":
        kind = at.element_type(at.node.input(1))
    else:
        code = NAMED[at.node.text("to")] if at.node.version < 6 else at.node.integer("to")
        kind = at.builder.dtype if TYPES[code] == at.file_dtype else TYPES[code]
    x = at.operand(0, EVERY_TYPE)
    at.emit(converting(at.builder.shape(x), at.builder.element_type(x), kind), x)


READ = (
    *(
        Operator(kind, partial(_unary, function=words[0], parameters=tuple(words[1:])), "number")
        for kind, words in ((kind, text.split()) for kind, text in OF_ONE.items())
    ),
    *(
        Operator(kind, partial(_expressed, body=body, truth="Bit" not in kind), "number")
        for kind, body in _EXPRESSIONS.items()
    ),
    *(
        Operator(kind, partial(_binary, function=function, body=body), "number")
        for kind, (function, body) in _OF_TWO.items()
    ),
    *(
        Operator(kind, partial(_variadic, function=function, joined=joined), "number")
        for kind, (function, joined) in _OF_MANY.items()
    ),
    Operator("BitShift", _shifted, "number", only={"direction": ("LEFT", "RIGHT")}),
    Operator("Cast", _cast, "any", only={"to": (*NAMED, *TYPES)}),
    Operator("CastLike", _cast, "any", extents="target_type"),
    Operator("Clip", _clip, "number", usual={"min": None, "max": None}),
    Operator(
        "Dropout", _dropout, known="ratio training_mode", only={"is_test": (1,)}, many=True,
        limits="inference: `training_mode` must be false",
    ),
    Operator("Gelu", _gelu, only={"approximate": ("none", "tanh")}),
    Operator("Identity", _identity, "any"),
    Operator("IsInf", _is_infinite, "number"),
    Operator("Mod", _mod, "number"),
    Operator("Pow", _pow, "number"),
    Operator("Where", _where),
)  # fmt: skip
