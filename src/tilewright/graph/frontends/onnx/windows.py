"""ONNX's operators on windows of images, and the attributes that such operators share."""

from __future__ import annotations

from functools import partial
from typing import Literal

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Attribute, Operator, X
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Pool2d
from tilewright.ops.gathering import Reduction
from tilewright.ops.window import Padding

IMAGES = "images of 4 dimensions"

_PAD_MODES = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
AUTO_PAD = Attribute("auto_pad", "text", "NOTSET", _PAD_MODES)
PADS = Attribute("pads", "integers", (0, 0, 0, 0), length=4)
STRIDES = Attribute("strides", "integers", (1, 1), length=2)


def pair(node: OnnxNode, name: str) -> tuple[int, int]:
    """An attribute of a row's and a column's number."""
    first, second = node.integers(name)
    return first, second


def padding(
    node: OnnxNode, image: tuple[int, int], span: tuple[int, int], stride: tuple[int, int]
) -> Padding:
    """(top, left, bottom, right) from `pads` or from the older `auto_pad`."""
    match node.text("auto_pad"):
        case "NOTSET":
            top, left, bottom, right = node.integers("pads")
            return top, left, bottom, right
        case "VALID":
            return 0, 0, 0, 0
        case mode:
            return _same(node, mode == "SAME_UPPER", image, span, stride)


def _same(
    node: OnnxNode,
    upper: bool,
    image: tuple[int, int],
    span: tuple[int, int],
    stride: tuple[int, int],
) -> Padding:
    """Padding for one window at each stride; the odd pixel comes after, with `upper`, or before.

    Where windows leave out more than a last pixel, runtimes disagree about which ones.
    """
    before, after = [0, 0], [0, 0]
    for axis in (0, 1):
        windows = -(-image[axis] // max(stride[axis], 1))
        total = (windows - 1) * stride[axis] + span[axis] - image[axis]
        if total < -1:
            raise GraphError(
                f"{node.title()}: auto_pad with windows of {span[axis]} pixels and a stride of "
                f"{stride[axis]} would leave out {-total} of {image[axis]} pixels",
                fix="export the model with pads",
            )
        total = max(total, 0)
        before[axis] = total // 2 if upper else total - total // 2
        after[axis] = total - before[axis]
    return before[0], before[1], after[0], after[1]


def _pool(importer: Importer, node: OnnxNode, *, reduction: Reduction) -> None:
    batch, channels, height, width = importer.images(node)
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
    batch, channels, height, width = importer.images(node)
    size = (height, width)
    op = Pool2d(reduction, batch, channels, *size, size, size, dtype=importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _pool_operator(
    kind: Literal["AveragePool", "MaxPool"], versions: tuple[int, ...], *more: Attribute
) -> Operator:
    attributes = (
        AUTO_PAD,
        Attribute("ceil_mode", "integer", 0, (0, 1), since=10),
        Attribute("kernel_shape", "integers", length=2, required=True),
        PADS,
        STRIDES,
        *more,
    )
    reduction: Reduction = "max" if kind == "MaxPool" else "average"
    translate = partial(_pool, reduction=reduction)
    return Operator(kind, versions, (X,), attributes, translate, limits=IMAGES)


def _global_operator(kind: str, reduction: Reduction) -> Operator:
    translate = partial(_global_pool, reduction=reduction)
    return Operator(kind, (1, 22), (X,), (), translate, limits=IMAGES)


def _no_dilation(since: int) -> Attribute:
    return Attribute("dilations", "integers", (1, 1), ((1, 1),), length=2, since=since)


WINDOWS = (
    _pool_operator(
        "AveragePool",
        (1, 7, 10, 11, 19, 22),
        Attribute("count_include_pad", "integer", 0, (0, 1), since=7),
        _no_dilation(19),
    ),
    _pool_operator(
        "MaxPool",
        (1, 8, 10, 11, 12, 22),
        Attribute("storage_order", "integer", 0, (0, 1), since=8),
        _no_dilation(10),
    ),
    _global_operator("GlobalAveragePool", "average"),
    _global_operator("GlobalMaxPool", "max"),
)
