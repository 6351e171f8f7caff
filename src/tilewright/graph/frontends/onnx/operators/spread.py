"""Attributes of windows with a number for each dimension, and the borders that they ask for."""

from __future__ import annotations

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops.op import Shape


def spread(node: OnnxNode, name: str, count: int, otherwise: int) -> Shape:
    """An attribute of `count` numbers; raises GraphError for one of another length."""
    if name not in node.attributes:
        return (otherwise,) * count
    found = node.integers(name)
    if len(found) != count:
        raise GraphError(f"{node.title()}: {name} must be {count} integers, found {found}")
    return found


def before_and_after(
    node: OnnxNode, image: Shape, span: Shape, stride: Shape
) -> tuple[Shape, Shape]:
    """Padding along each dimension, from `pads` or from the older `auto_pad`."""
    rank = len(image)
    match node.text("auto_pad"):
        case "NOTSET":
            pads = spread(node, "pads", 2 * rank, 0)
            return pads[:rank], pads[rank:]
        case "VALID":
            return (0,) * rank, (0,) * rank
        case mode:
            return _same(node, image, span, stride, upper=mode == "SAME_UPPER")


def _same(
    node: OnnxNode, image: Shape, span: Shape, stride: Shape, *, upper: bool
) -> tuple[Shape, Shape]:
    """Padding for one window at each stride; the odd pixel comes after, with `upper`, or before.

    Where windows leave out more than a last pixel, runtimes disagree about which ones.
    """
    before, after = [], []
    for size, reach, step in zip(image, span, stride, strict=True):
        windows = -(-size // max(step, 1))
        total = (windows - 1) * step + reach - size
        if total < -1:
            raise GraphError(
                f"{node.title()}: auto_pad with windows of {reach} pixels and a stride of "
                f"{step} would leave out {-total} of {size} pixels",
                fix="export the model with pads",
            )
        total = max(total, 0)
        before.append(total // 2 if upper else total - total // 2)
        after.append(total - before[-1])
    return tuple(before), tuple(after)
