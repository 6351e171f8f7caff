"""ONNX's operators on windows of images, and the attributes that such operators share."""

from __future__ import annotations

from functools import partial
from typing import Literal

from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator, X
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.frontends.onnx.operators.any_rank import pool, transposed
from tilewright.graph.frontends.onnx.operators.spread import before_and_after, spread
from tilewright.ops import Pool2d, Reduce
from tilewright.ops.gathering import Reduction
from tilewright.ops.window import Padding

IMAGES = "images of 4 dimensions"

_PAD_MODES = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
AUTO_PAD = Attribute("auto_pad", "text", "NOTSET", _PAD_MODES)
PADS = Attribute("pads", "integers")
STRIDES = Attribute("strides", "integers")
IMAGE_RANK = 4
"""Dimensions of images with rows and columns, which have operators of their own."""


def pair(node: OnnxNode, name: str) -> tuple[int, int]:
    """An attribute of a row's and a column's number, 1 where it is not given."""
    first, second = spread(node, name, 2, 1)
    return first, second


def padding(
    node: OnnxNode, image: tuple[int, int], span: tuple[int, int], stride: tuple[int, int]
) -> Padding:
    """(top, left, bottom, right) from `pads` or from the older `auto_pad`."""
    (top, left), (bottom, right) = before_and_after(node, image, span, stride)
    return top, left, bottom, right


def _pool(importer: Importer, node: OnnxNode, *, reduction: Reduction) -> None:
    shape = importer.shape(node, 0)
    dilated = set(node.integers("dilations") if "dilations" in node.attributes else ()) - {1}
    if len(shape) != IMAGE_RANK or dilated or not importer.is_float:
        pool(importer, node, reduction)
        return
    batch, channels, height, width = shape
    kernel, stride = pair(node, "kernel_shape"), pair(node, "strides")
    op = Pool2d(
        reduction,
        batch,
        channels,
        height,
        width,
        kernel,
        stride,
        padding(node, (height, width), kernel, stride),
        _flag(node, "ceil_mode"),
        _flag(node, "count_include_pad"),
        importer.dtype,
    )
    importer.emit(node, op, importer.operand(node, 0))


def _flag(node: OnnxNode, name: str) -> bool:
    """True if the attribute, which only later versions have, is given and set."""
    return name in node.attributes and bool(node.integer(name))


def _global_pool(importer: Importer, node: OnnxNode, *, reduction: Reduction) -> None:
    shape = importer.shape(node, 0)
    if len(shape) != IMAGE_RANK:
        function = "max" if reduction == "max" else "mean"
        rows = Reduce(function, shape, tuple(range(2, len(shape))), importer.dtype)
        importer.emit(node, rows, importer.operand(node, 0))
        return
    batch, channels, height, width = shape
    size = (height, width)
    op = Pool2d(reduction, batch, channels, *size, size, size, dtype=importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _pool_operator(
    kind: Literal["AveragePool", "MaxPool"], versions: tuple[int, ...], *more: Attribute
) -> Operator:
    attributes = (
        AUTO_PAD,
        Attribute("ceil_mode", "integer", 0, (0, 1), since=10),
        Attribute("kernel_shape", "integers", required=True),
        PADS,
        STRIDES,
        *more,
    )
    reduction: Reduction = "max" if kind == "MaxPool" else "average"
    translate = partial(_pool, reduction=reduction)
    return Operator(kind, versions, (Input("X", elements="number"),), attributes, translate)


def _global_operator(kind: str, reduction: Reduction) -> Operator:
    translate = partial(_global_pool, reduction=reduction)
    return Operator(kind, (1, 22), (X,), (), translate)


def _dilation(since: int) -> Attribute:
    return Attribute("dilations", "integers", since=since)


def _lp_pool(importer: Importer, node: OnnxNode) -> None:
    pool(importer, node, "norm")


def _lp_global(importer: Importer, node: OnnxNode) -> None:
    shape, x = importer.shape(node, 0), importer.operand(node, 0)
    p, axes = node.number("p"), tuple(range(2, len(shape)))
    each = importer.step(node, importer.mapped(f"pow(abs(x0), {p})", x), x, suffix="_each")
    total = importer.step(node, Reduce("sum", shape, axes, importer.dtype), each, suffix="_sum")
    importer.emit(node, importer.mapped(f"pow(x0, {1 / p!r})", total), total)


_NORM = (Attribute("p", "number", 2.0, until=1), Attribute("p", "integer", 2, since=2))

WINDOWS = (
    _pool_operator(
        "AveragePool",
        (1, 7, 10, 11, 19, 22),
        Attribute("count_include_pad", "integer", 0, (0, 1), since=7),
        _dilation(19),
    ),
    _pool_operator(
        "MaxPool",
        (1, 8, 10, 11, 12, 22),
        Attribute("storage_order", "integer", 0, (0, 1), since=8),
        _dilation(10),
    ),
    _global_operator("GlobalAveragePool", "average"),
    _global_operator("GlobalMaxPool", "max"),
    Operator(
        "ConvTranspose",
        (1, 11, 22),
        (X, Input("W"), Input("B", optional=True)),
        (
            AUTO_PAD,
            Attribute("dilations", "integers"),
            Attribute("group", "integer", 1),
            Attribute("kernel_shape", "integers"),
            Attribute("output_padding", "integers"),
            Attribute("output_shape", "integers"),
            PADS,
            STRIDES,
        ),
        transposed,
    ),
    Operator("GlobalLpPool", (1, 2, 22), (X,), _NORM, _lp_global),
    Operator(
        "LpPool",
        (1, 2, 11, 18, 22),
        (X,),
        (
            AUTO_PAD,
            Attribute("ceil_mode", "integer", 0, (0, 1), since=18),
            Attribute("dilations", "integers", since=18),
            Attribute("kernel_shape", "integers", until=1),
            Attribute("kernel_shape", "integers", required=True, since=2),
            *_NORM,
            PADS,
            STRIDES,
        ),
        _lp_pool,
    ),
)
