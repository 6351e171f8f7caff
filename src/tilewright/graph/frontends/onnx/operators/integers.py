"""ONNX's products of 8-bit integers: zero points are subtracted first, sums have 32 bits.

An operand with a zero point becomes a tensor of 16 bits, since the difference of two 8-bit integers
needs nine. Where the zero point is known before the network runs, so is a constant operand's
difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Input, Operator
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.frontends.onnx.operators.products import CONVOLUTION, convolution
from tilewright.graph.frontends.onnx.operators.windows import IMAGES
from tilewright.ops import Binary, Reshape, gemm
from tilewright.ops.op import Shape

_BYTES = ("i8", "u8")
_DIFFERENCE = "i16"


class _Operand(NamedTuple):
    """A tensor without zero point, and its element type."""

    name: str
    dtype: str


def _conv_integer(importer: Importer, node: OnnxNode) -> None:
    x, w = (importer.shape(node, index, _BYTES) for index in (0, 1))
    left = _centred(importer, node, 0, 2, (1,))
    right = _centred(importer, node, 1, 3, (w[0], 1, 1, 1))
    op = convolution(node, x, w, f"{left.dtype},{right.dtype}:i32")
    importer.emit(node, op, left.name, right.name)


def _mat_mul_integer(importer: Importer, node: OnnxNode) -> None:
    a, b = (importer.shape(node, index, _BYTES) for index in (0, 1))
    if len(a) != 2 or len(b) != 2:
        raise GraphError(f"{node.title()}: takes matrices, found {len(a)} and {len(b)} dimensions")
    left = _centred(importer, node, 0, 2, (a[0], 1))
    right = _centred(importer, node, 1, 3, (1, b[1]))
    op = gemm(a[0], b[1], a[1], dtype=f"{left.dtype},{right.dtype}:i32")
    importer.emit(node, op, left.name, right.name)


def _centred(importer: Importer, node: OnnxNode, index: int, zero: int, many: Shape) -> _Operand:
    """The operand at `index` less its zero point: one number, or one for each index of `many`."""
    name = node.input(index)
    kind = importer.element_type(name, node.title())
    if not node.has_input(zero) or not _counts(importer, node.input(zero)):
        return _Operand(importer.operand(node, index, _BYTES), kind)
    shape = importer.shape(node, zero, (kind,))
    count = int(np.prod(shape, dtype=int))
    if count not in (1, int(np.prod(many))):
        raise GraphError(
            f"{node.title()}: input {zero} holds {count} zero points, "
            f"expected one{f' or {max(many)}' if max(many) > 1 else ''}"
        )
    broadcast = many if count > 1 else (1,)
    if {name, node.input(zero)} <= importer.constants.keys():
        values, points = importer.constants[name], importer.constants[node.input(zero)]
        less = values.astype(np.int16) - points.reshape(broadcast).astype(np.int16)
        constant = importer.new_constant(f"{name}/centred", less)
        return _Operand(importer.use(constant, node.title(), (_DIFFERENCE,)), _DIFFERENCE)
    operand = importer.operand(node, index, _BYTES)
    op = Binary("sub", importer.builder.shape(operand), broadcast, f"{kind}:{_DIFFERENCE}")
    points_at = _reshaped(importer, node, zero, shape, broadcast)
    suffix = "_centred" if index == 0 else "_weights_centred"
    return _Operand(importer.step(node, op, operand, points_at, suffix=suffix), _DIFFERENCE)


def _counts(importer: Importer, name: str) -> bool:
    """True if a zero point may differ from 0: it is no constant, or holds other numbers."""
    return name not in importer.constants or bool(np.any(importer.constants[name]))


def _reshaped(importer: Importer, node: OnnxNode, index: int, shape: Shape, wanted: Shape) -> str:
    name = node.input(index)
    kind = importer.element_type(name, node.title())
    if name in importer.constants:
        constant = importer.reshaped_constant(name, wanted)
        return importer.use(constant, node.title(), (kind,))
    operand = importer.operand(node, index, (kind,))
    if shape == wanted:
        return operand
    return importer.step(node, Reshape(shape, wanted, kind), operand, suffix=f"_zero{index}")


INTEGERS = (
    Operator(
        "ConvInteger",
        (10,),
        (
            Input("x", elements="integer"),
            Input("w", elements="integer"),
            Input("x_zero_point", elements="integer", optional=True),
            Input("w_zero_point", elements="integer", optional=True),
        ),
        CONVOLUTION,
        _conv_integer,
        limits=IMAGES,
    ),
    Operator(
        "MatMulInteger",
        (10,),
        (
            Input("A", elements="integer"),
            Input("B", elements="integer"),
            Input("a_zero_point", elements="integer", optional=True),
            Input("b_zero_point", elements="integer", optional=True),
        ),
        (),
        _mat_mul_integer,
        limits="A and B are matrices",
    ),
)
