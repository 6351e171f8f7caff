"""ONNX's operators that move the elements of a tensor: Pad, Slice, Transpose."""

from __future__ import annotations

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx import fold as fold
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Pad, Slice, Transpose

_ANY = Input("X", elements="any")
_TYPES = (13, 21, 23, 24, 25)
"""Versions that only add element types."""


def _transpose(importer: Importer, node: OnnxNode) -> None:
    shape = importer.shape(node, 0)
    reverse = tuple(reversed(range(len(shape))))
    order = node.integers("perm") if "perm" in node.attributes else reverse
    if sorted(order) != list(range(len(shape))):
        raise GraphError(f"{node.title()}: perm = {order} does not order {len(shape)} dimensions")
    importer.emit(node, Transpose(shape, order, importer.dtype), importer.operand(node, 0))


def _slice(importer: Importer, node: OnnxNode) -> None:
    shape = importer.shape(node, 0)
    starts, ends, axes, steps = _cuts(importer, node)
    axes, steps = axes or tuple(range(len(starts))), steps or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise GraphError(f"{node.title()}: starts, ends, axes and steps differ in their number")
    start, counts, step = [0] * len(shape), list(shape), [1] * len(shape)
    for first, last, named, by in zip(starts, ends, axes, steps, strict=True):
        axis = importer.axis(node, named, len(shape))
        if by < 1:
            raise GraphError(f"{node.title()}: steps of {by} are not supported, only positive ones")
        taken = range(*slice(first, last, by).indices(shape[axis]))
        if not taken:
            raise GraphError(f"{node.title()}: takes no element along axis {axis}")
        start[axis], counts[axis], step[axis] = taken.start, len(taken), by
    numbers = (tuple(start), tuple(counts), tuple(step))
    importer.emit(node, Slice(shape, *numbers, importer.dtype), importer.operand(node, 0))


def _cuts(importer: Importer, node: OnnxNode) -> list[tuple[int, ...]]:
    """Starts, ends, axes and steps, the latter two empty where they are left out; all attributes
    but the steps up to operator set 9.
    """
    if node.version >= 10:
        return [importer.integers(node, i) if node.has_input(i) else () for i in (1, 2, 3, 4)]
    axes = node.integers("axes") if "axes" in node.attributes else ()
    return [node.integers("starts"), node.integers("ends"), axes, ()]


def _pad(importer: Importer, node: OnnxNode) -> None:
    shape, rank = importer.shape(node, 0), len(importer.shape(node, 0))
    value = 0.0
    if node.version < 11:
        pads = node.integers("paddings" if node.version == 1 else "pads")
        value, axes = node.number("value"), tuple(range(rank))
    else:
        pads = importer.integers(node, 1)
        if node.has_input(2):
            numbers = importer.constant(node, 2)
            if numbers.size != 1:
                raise GraphError(f"{node.title()}: constant_value must be a single number")
            value = float(numbers.reshape(-1)[0])
        named = importer.integers(node, 3) if node.has_input(3) else tuple(range(rank))
        axes = tuple(importer.axis(node, axis, rank) for axis in named)
    if len(pads) != 2 * len(axes) or len(set(axes)) < len(axes):
        raise GraphError(f"{node.title()}: {len(pads)} pads do not fit {len(axes)} dimensions")
    if min(pads, default=0) < 0:
        raise GraphError(f"{node.title()}: pads of {min(pads)} are not supported", fix="use Slice")
    before, after = [0] * rank, [0] * rank
    for axis, first, last in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        before[axis], after[axis] = first, last
    op = Pad(shape, tuple(before), tuple(after), value, importer.dtype)
    importer.emit(node, op, importer.operand(node, 0))


def _constants(*names: str, since: int = 1, optional: bool = False) -> tuple[Input, ...]:
    return tuple(
        Input(name, "constant", "integer", optional=optional, since=since) for name in names
    )


MOVES = (
    Operator(
        "Pad",
        (1, 2, 11, 13, 18, 19, 21, 23, 24, 25),
        (
            Input("X"),
            *_constants("pads", since=11),
            Input("constant_value", "constant", "float", optional=True, since=11),
            *_constants("axes", since=18, optional=True),
        ),
        (
            Attribute("mode", "text", "constant", ("constant",)),
            Attribute("paddings", "integers", required=True, until=1),
            Attribute("pads", "integers", required=True, since=2, until=10),
            Attribute("value", "number", 0.0, until=10),
        ),
        _pad,
        limits="not negative",
    ),
    Operator(
        "Slice",
        (1, 10, 11, 13),
        (
            _ANY,
            *_constants("starts", "ends", since=10),
            *_constants("axes", "steps", since=10, optional=True),
        ),
        (
            Attribute("starts", "integers", required=True, until=9),
            Attribute("ends", "integers", required=True, until=9),
            Attribute("axes", "integers", until=9),
        ),
        _slice,
        fold.slices,
        limits="positive steps, negative ones of constants",
    ),
    Operator(
        "Transpose",
        (1, *_TYPES),
        (_ANY,),
        (Attribute("perm", "integers"),),
        _transpose,
        fold.transpose,
    ),
)
