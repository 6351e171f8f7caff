"""ONNX's operators that move the elements of a tensor: Pad, Slice, Transpose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx import fold as fold
from tilewright.graph.frontends.onnx.declare import Attribute, Input, Operator
from tilewright.graph.frontends.onnx.importer import Importer, types_text
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Pad, Slice, Transpose
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition
from tilewright.ops.definitions import assembled
from tilewright.ops.op import Op, Shape

_ANY = Input("X", elements="any")
_TYPES = (13, 21, 23, 24, 25)
"""Versions that only add element types."""
_MOST_MIRRORED = 64
"""Places of a border that are copied one by one."""


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
        if not by:
            raise GraphError(f"{node.title()}: a step of 0 along axis {axis}")
        taken = range(*slice(first, last, by).indices(shape[axis]))
        if not taken:
            raise GraphError(f"{node.title()}: takes no element along axis {axis}")
        start[axis], counts[axis], step[axis] = taken.start, len(taken), by
    numbers, x = (tuple(start), tuple(counts), tuple(step)), importer.operand(node, 0)
    if min(step, default=1) > 0:
        importer.emit(node, Slice(shape, *numbers, importer.dtype), x)
        return
    places = tuple(((d, by),) for d, by in enumerate(step))
    source = Access(shape, places, tuple(start))
    extents = tuple(counts)
    op = Definition(extents, straight(extents), (source,), dtype=importer.dtype)
    importer.emit(node, op, x)


def _cuts(importer: Importer, node: OnnxNode) -> list[tuple[int, ...]]:
    """Starts, ends, axes and steps, the latter two empty where they are left out; all attributes
    but the steps up to operator set 9.
    """
    if node.version >= 10:
        return [importer.integers(node, i) if node.has_input(i) else () for i in (1, 2, 3, 4)]
    axes = node.integers("axes") if "axes" in node.attributes else ()
    return [node.integers("starts"), node.integers("ends"), axes, ()]


def _pad(importer: Importer, node: OnnxNode) -> None:
    rank, value = len(importer.shape(node, 0)), 0.0
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
    before, after = [0] * rank, [0] * rank
    for axis, first, last in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        before[axis], after[axis] = first, last
    x = _cropped(importer, node, before, after)
    own = importer.builder.shape(x)
    before, after = ([max(0, n) for n in numbers] for numbers in (before, after))
    if node.text("mode") == "constant":
        importer.emit(node, Pad(own, tuple(before), tuple(after), value, importer.dtype), x)
    else:
        _continued(importer, node, x, before, after)


def _cropped(
    importer: Importer, node: OnnxNode, before: Sequence[int], after: Sequence[int]
) -> str:
    """The operand without what negative pads take away."""
    x, shape = importer.operand(node, 0), importer.shape(node, 0)
    if min(*before, *after, 0) == 0:
        return x
    start = tuple(max(0, -n) for n in before)
    counts = tuple(n + min(0, b) + min(0, a) for n, b, a in zip(shape, before, after, strict=True))
    steps = (1,) * len(shape)
    op = Slice(shape, start, counts, steps, importer.dtype)
    return importer.step(node, op, x, suffix="_cropped")


def _continued(
    importer: Importer, node: OnnxNode, x: str, before: Sequence[int], after: Sequence[int]
) -> None:
    """Around the tensor its own elements, mirrored, the nearest or from the other side, axis by
    axis: parts that write places of their own.
    """
    padded = [d for d in range(len(before)) if before[d] or after[d]]
    for number, d in enumerate(padded or [0]):
        shape = importer.builder.shape(x)
        if node.text("mode") == "reflect" and max(before[d], after[d]) > _MOST_MIRRORED:
            operands, op = _mirrored(importer, node, x, d, (before[d], after[d]))
        else:
            parts = tuple(_parts(node, shape, d, before[d], after[d], importer.dtype))
            operands, op = (x,), assembled(parts, [(0,)] * len(parts), importer.dtype)
        if number + 1 < len(padded):
            x = importer.step(node, op, *operands, suffix=f"_{d}")
        else:
            importer.emit(node, op, *operands)


def _mirrored(
    importer: Importer, node: OnnxNode, x: str, d: int, pads: tuple[int, int]
) -> tuple[tuple[str, ...], Op]:
    """Places along one dimension, and the look-up there: loops take few steps backwards."""
    shape = importer.builder.shape(x)
    places = np.pad(np.arange(shape[d]), pads, "reflect")
    name = importer.new_constant(f"{node.output()}/places{d}", places)
    extents = (*shape[:d], places.size, *shape[d + 1 :])
    terms = tuple(() if axis == d else ((axis, 1),) for axis in range(len(shape)))
    read = tuple(1 if axis == d else None for axis in range(len(shape)))
    table = Access(shape, terms, (0,) * len(shape), None, read)
    types = types_text([importer.dtype, "i64"], importer.dtype, importer.dtype)
    index = straight((places.size,), (d,))
    op = Definition(extents, straight(extents), (table, index), dtype=types)
    return (x, importer.use(name, node.title(), ("i64",))), op


def _parts(
    node: OnnxNode, shape: Shape, d: int, before: int, after: int, kind: str
) -> Iterator[Definition]:
    """(the tensor, what lies before it, what lies behind it) along one dimension."""
    size = shape[d]
    whole = (*shape[:d], before + size + after, *shape[d + 1 :])
    for first, count in ((before, size), (0, before), (before + size, after)):
        done = 0
        while done < count:
            at = first + done - before
            start, step, run = _run(node.text("mode"), at, count - done, size)
            extents = (*shape[:d], run, *shape[d + 1 :])
            terms = [((axis, 1),) for axis in range(len(shape))]
            to = _at(tuple(terms), d, 1, first + done)
            of = _at(tuple(terms), d, step, start)
            yield Definition(extents, Access(whole, *to), (Access(shape, *of),), dtype=kind)
            done += run


def _at(
    terms: tuple[tuple[tuple[int, int], ...], ...], d: int, step: int, offset: int
) -> tuple[tuple[tuple[tuple[int, int], ...], ...], tuple[int, ...]]:
    own = ((d, step),) if step else ()
    offsets = tuple(offset if axis == d else 0 for axis in range(len(terms)))
    return (*terms[:d], own, *terms[d + 1 :]), offsets


def _run(mode: str, at: int, count: int, size: int) -> tuple[int, int, int]:
    """(the element at a place beyond the border, the step from there, for how many places)."""
    if 0 <= at < size:
        return at, 1, size - at
    if mode == "edge":
        return (0 if at < 0 else size - 1), 0, count
    if mode == "wrap":
        start = at % size
        return start, 1, min(count, size - start)
    period = max(1, 2 * (size - 1))
    start = at % period
    if start >= size:  # on the way back
        start = period - start
        return start, -1, min(count, start)
    return start, 1 if size > 1 else 0, min(count, size - 1 - start) or 1


def _constants(*names: str, since: int = 1, optional: bool = False) -> tuple[Input, ...]:
    return tuple(
        Input(name, "constant", "integer", optional=optional, since=since) for name in names
    )


MOVES = (
    Operator(
        "Pad",
        (1, 2, 11, 13, 18, 19, 21, 23, 24, 25),
        (
            Input("X", elements="any"),
            *_constants("pads", since=11),
            Input("constant_value", "constant", "any", optional=True, since=11),
            *_constants("axes", since=18, optional=True),
        ),
        (
            Attribute("mode", "text", "constant", ("constant", "edge", "reflect", "wrap")),
            Attribute("paddings", "integers", required=True, until=1),
            Attribute("pads", "integers", required=True, since=2, until=10),
            Attribute("value", "number", 0.0, until=10),
        ),
        _pad,
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
