"""ONNX's conversions to 8 and 16 bits with scales and zero points, and products of such tensors."""

from __future__ import annotations

from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import EVERY_TYPE, Importer
from tilewright.graph.frontends.onnx.operators.products import product_of_batches

_ONLY = {"output_dtype": (0,), "block_size": (0,)}


def _along(at: Importer) -> list[str]:
    """The operand, and its scale and zero point: one number, or one for each place of the axis."""
    x, *others = at.operands(EVERY_TYPE)
    shape, found = at.builder.shape(x), [x]
    for name in others:
        own = at.builder.shape(name)
        if len(own) > 1:
            raise at.wrong("scales of blocks are not supported")
        if own not in ((), (1,)):
            axis = at.axis(rank=len(shape))
            name = at.reshaped(name, tuple(own[0] if d == axis else 1 for d in range(len(shape))))
        found.append(name)
    return found


def _quantise(at: Importer) -> None:
    """Quotients rounded to even, moved by the zero point, within the limits of its type."""
    x, scale, *zero = _along(at)
    quotient = at.each("x0 / x1", x, scale, suffix="_quotient", computed="f32")
    kind = at.builder.element_type(zero[0]) if zero else "u8"
    body = "round(x0) + x1" if zero else "round(x0)"
    at.map(body, quotient, *zero, computed="f32", result=kind)


def _dequantise(at: Importer) -> None:
    names = _along(at)
    body, kind = (
        "(x0 - x2) * x1" if len(names) > 2 else "x0 * x1",
        at.builder.element_type(names[1]),
    )
    at.map(body, *names, computed="f32", result=kind)


def _product(at: Importer) -> None:
    """The product of what the integers stand for, quantised again."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = at.operands(EVERY_TYPE)
    names = [at.each("x0 - x1", *pair, computed="f32") for pair in ((a, a_zero), (b, b_zero))]
    shapes = [at.builder.shape(name) for name in names]
    made = at.step(product_of_batches(at, shapes[0], shapes[1], "f32"), *names, suffix="_product")
    operands, kind = (made, a_scale, b_scale, y_scale, y_zero), at.builder.element_type(y_zero)
    at.map("round(x0 * (x1 * x2 / x3)) + x4", *operands, computed="f32", result=kind)


READ = (
    Operator("DequantizeLinear", _dequantise, "any", only=_ONLY),
    Operator("QLinearMatMul", _product, "any"),
    Operator("QuantizeLinear", _quantise, "any", only=_ONLY),
)
