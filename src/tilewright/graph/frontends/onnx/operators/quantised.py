"""ONNX's conversions to 8 and 16 bits with scales and zero points, and products of such tensors."""

from __future__ import annotations

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator
from tilewright.graph.frontends.onnx.importer import EVERY_TYPE, Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Reshape
from tilewright.ops.einsum import einsum
from tilewright.ops.op import Shape

_OPERANDS = (
    "a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point",
)  # fmt: skip


def _along(importer: Importer, node: OnnxNode, index: int, shape: Shape) -> str:
    """A scale or zero point, one number or one for each place of the axis."""
    name = importer.operand(node, index, EVERY_TYPE)
    own = importer.builder.shape(name)
    if len(own) > 1 or ("block_size" in node.attributes and node.integer("block_size")):
        raise GraphError(f"{node.title()}: scales of blocks are not supported")
    if not own or own == (1,):
        return name
    axis = importer.axis(node, node.integer("axis"), len(shape))
    wanted = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    op = Reshape(own, wanted, importer.builder.element_type(name))
    return importer.step(node, op, name, suffix=f"_{index}")


def _quantise(importer: Importer, node: OnnxNode) -> None:
    """Quotients rounded to even, moved by the zero point, within the limits of its type."""
    x = importer.operand(node, 0, EVERY_TYPE)
    shape = importer.builder.shape(x)
    pair = (x, _along(importer, node, 1, shape))
    quotient = importer.mapped("x0 / x1", *pair, computed="f32")
    names = [importer.step(node, quotient, *pair, suffix="_quotient")]
    body, kind = "round(x0)", "u8"
    if node.has_input(2):
        names.append(_along(importer, node, 2, shape))
        body, kind = "round(x0) + x1", importer.builder.element_type(names[1])
    importer.emit(node, importer.mapped(body, *names, computed="f32", result=kind), *names)


def _dequantise(importer: Importer, node: OnnxNode) -> None:
    x = importer.operand(node, 0, EVERY_TYPE)
    shape = importer.builder.shape(x)
    names = [x, _along(importer, node, 1, shape)]
    body, kind = "x0 * x1", importer.builder.element_type(names[1])
    if node.has_input(2):
        names.append(_along(importer, node, 2, shape))
        body = "(x0 - x2) * x1"
    importer.emit(node, importer.mapped(body, *names, computed="f32", result=kind), *names)


def _product(importer: Importer, node: OnnxNode) -> None:
    """The product of what the integers stand for, quantised again."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (
        importer.operand(node, i, EVERY_TYPE) for i in range(8)
    )
    left = importer.mapped("x0 - x1", a, a_zero, computed="f32")
    right = importer.mapped("x0 - x1", b, b_zero, computed="f32")
    names = (
        importer.step(node, left, a, a_zero, suffix="_a"),
        importer.step(node, right, b, b_zero, suffix="_b"),
    )
    ranks = [len(op.out_shape) for op in (left, right)]
    batch = "abcdef"[: max(ranks) - 2]
    terms = [f"{batch[len(batch) - rank + 2 :]}{own}" for rank, own in zip(ranks, ("mk", "kn"),
             strict=True)]  # fmt: skip
    product = einsum(f"{','.join(terms)}->{batch}mn", [left.out_shape, right.out_shape],
                     dtype="f32")  # fmt: skip
    made = importer.step(node, product, *names, suffix="_product")
    body = "round(x0 * (x1 * x2 / x3)) + x4"
    operands = (made, a_scale, b_scale, y_scale, y_zero)
    kind = importer.builder.element_type(y_zero)
    importer.emit(node, importer.mapped(body, *operands, computed="f32", result=kind), *operands)


_MORE = (
    Attribute("axis", "integer", 1, since=13),
    Attribute("block_size", "integer", 0, since=21),
    Attribute("output_dtype", "integer", 0, (0,), since=21),
    Attribute("saturate", "integer", 1, since=19),
    Attribute("precision", "integer", 0, (0, 1), since=23),
)

QUANTISED = (
    Operator(
        "DequantizeLinear",
        (10, 13, 19, 21, 23, 24, 25, 28),
        (
            Input("x", elements="any"),
            Input("x_scale"),
            Input("x_zero_point", elements="number", optional=True),
        ),
        (*_MORE[:2], Attribute("output_dtype", "integer", 0, (0,), since=23)),
        _dequantise,
    ),
    Operator(
        "QLinearMatMul",
        (10, 21),
        tuple(Input(name, elements="any") for name in _OPERANDS),
        (),
        _product,
    ),
    Operator(
        "QuantizeLinear",
        (10, 13, 19, 21, 23, 24, 25, 28),
        (
            Input("x", elements="any"),
            Input("y_scale"),
            Input("y_zero_point", elements="number", optional=True),
        ),
        _MORE,
        _quantise,
    ),
)
