"""ONNX's windows along any number of dimensions, as definitions: convolutions, transposed ones,
pools with dilations, of norms and of integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.graph.frontends.onnx.operators.spread import before_and_after, spread
from tilewright.ops import Reshape
from tilewright.ops.access import Access, straight
from tilewright.ops.definition import Definition, Gather
from tilewright.ops.definitions import assembled
from tilewright.ops.gradient import scattered
from tilewright.ops.op import Op, Shape

_Terms = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Windows:
    """Windows of `kernel` elements, along each dimension."""

    kernel: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape

    @property
    def span(self) -> Shape:
        """Elements from the first to the last one of a window."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def counts(self, image: Shape, *, up: bool) -> Shape:
        """Windows along each dimension; a last one in part, where it begins inside, if `up`."""
        found = []
        sides = zip(image, self.before, self.after, self.span, self.stride, strict=True)
        for size, before, after, span, stride in sides:
            room = size + before + after - span
            count = (-(-room // stride) if up else room // stride) + 1
            if up and (count - 1) * stride >= size + before:
                count -= 1
            found.append(count)
        return tuple(found)

    def places(self, outer: int, inner: int) -> tuple[tuple[_Terms, ...], Shape]:
        """(terms, offsets) over axes of windows from `outer` on, of their elements from `inner`."""
        steps = zip(self.stride, self.dilation, strict=True)
        terms = tuple(((outer + d, s), (inner + d, t)) for d, (s, t) in enumerate(steps))
        return terms, tuple(-n for n in self.before)


def windows_of(node: OnnxNode, image: Shape, kernel: Shape) -> Windows:
    """The windows that a node's attributes describe."""
    stride, dilation = (spread(node, name, len(kernel), 1) for name in ("strides", "dilations"))
    span = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    before, after = before_and_after(node, image, span, stride)
    return Windows(kernel, stride, dilation, before, after)


def convolution(importer: Importer, node: OnnxNode, images: Shape, weights: Shape) -> Definition:
    """Any rank, any groups."""
    rank, groups = len(images) - 2, node.integer("group")
    if len(weights) != rank + 2 or images[1] % groups or weights[0] % groups or (
        weights[1] * groups != images[1]):  # fmt: skip
        raise GraphError(f"{node.title()}: weights of {weights} do not fit images of {images}")
    found = windows_of(node, images[2:], weights[2:])
    out = found.counts(images[2:], up=False)
    inputs, outputs = weights[1], weights[0] // groups
    n, o, first, i = 0, 1, 2, 2 + rank
    taps, group = i + 1, i + 1 + rank
    extents = (images[0], outputs, *out, inputs, *weights[2:], groups)
    places, offsets = found.places(first, taps)
    y = Access((images[0], weights[0], *out),
               (((n, 1),), ((group, outputs), (o, 1)), *(((first + d, 1),) for d in range(rank))),
               (0,) * (rank + 2))  # fmt: skip
    x = Access(images, (((n, 1),), ((group, inputs), (i, 1)), *places), (0, 0, *offsets), 0.0)
    w = Access(weights, (((group, outputs), (o, 1)), ((i, 1),),
                         *(((taps + d, 1),) for d in range(rank))), (0,) * (rank + 2))  # fmt: skip
    return Definition(extents, y, (x, w), "x0 * x1", "sum", "x0", importer.dtype)


def transposed(importer: Importer, node: OnnxNode) -> None:
    """Each element adds a window of the weights to the result."""
    images, weights = importer.shape(node, 0), importer.shape(node, 1)
    rank, groups = len(images) - 2, node.integer("group")
    kernel, inputs, outputs = weights[2:], images[1] // groups, weights[1]
    more = spread(node, "output_padding", rank, 0)
    stride, dilation = (spread(node, name, rank, 1) for name in ("strides", "dilations"))
    whole = tuple(
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(images[2:], stride, kernel, dilation, strict=True)
    )
    before, size = _cropping(node, images[2:], stride, whole, more)
    n, o, first, i = 0, 1, 2, 2 + rank
    taps, group = i + 1, i + 1 + rank
    extents = (images[0], outputs, *images[2:], inputs, *kernel, groups)
    steps = zip(stride, dilation, strict=True)
    places = tuple(((first + d, s), (taps + d, t)) for d, (s, t) in enumerate(steps))
    whole_shape = (images[0], outputs * groups, *size)
    first_place = (0, 0, *(-b for b in before))
    y = Access(whole_shape, (((n, 1),), ((group, outputs), (o, 1)), *places), first_place)
    x = Access(images, (((n, 1),), ((group, inputs), (i, 1)),
                        *(((first + d, 1),) for d in range(rank))), (0,) * (rank + 2))  # fmt: skip
    w = Access(weights, (((group, inputs), (i, 1)), ((o, 1),),
                         *(((taps + d, 1),) for d in range(rank))), (0,) * (rank + 2))  # fmt: skip
    parts = scattered(extents, y, (x, w), dtype=importer.dtype)
    op = assembled(parts, [(0, 1)] * len(parts), importer.dtype)
    names = importer.operand(node, 0), importer.operand(node, 1)
    with_bias(importer, node, op, names)


def _cropping(
    node: OnnxNode, image: Shape, stride: Shape, whole: Shape, more: Shape
) -> tuple[Shape, Shape]:
    """(elements that are left out before the result, its extents)."""
    rank, mode = len(image), node.text("auto_pad")
    if "output_shape" in node.attributes:
        size = node.integers("output_shape")[-rank:]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        size = tuple(n * s for n, s in zip(image, stride, strict=True))
    else:
        pads = spread(node, "pads", 2 * rank, 0)
        ends = zip(whole, more, pads[:rank], pads[rank:], strict=True)
        return pads[:rank], tuple(w + m - a - b for w, m, a, b in ends)
    total = [w + m - n for w, m, n in zip(whole, more, size, strict=True)]
    upper = mode == "SAME_UPPER"
    before = tuple(max(0, t) // 2 if upper else max(0, t) - max(0, t) // 2 for t in total)
    return before, size


def with_bias(importer: Importer, node: OnnxNode, op: Op, names: tuple[str, ...]) -> None:
    """The operator, and a third input added for each channel."""
    if not node.has_input(2):
        importer.emit(node, op, *names)
        return
    made, bias = importer.step(node, op, *names), importer.operand(node, 2)
    shape = importer.builder.shape(bias)
    wide = (*shape, *(1,) * (len(op.out_shape) - 2))
    along = importer.step(node, Reshape(shape, wide, importer.dtype), bias, suffix="_along")
    importer.emit(node, importer.mapped("x0 + x1", made, along), made, along)


def pool(importer: Importer, node: OnnxNode, reduction: str) -> None:
    """The largest, the mean or the norm of windows."""
    x, images = importer.operand(node, 0), importer.shape(node, 0)
    rank = len(images) - 2
    kernel = spread(node, "kernel_shape", rank, 1)
    found = windows_of(node, images[2:], kernel)
    up = "ceil_mode" in node.attributes and bool(node.integer("ceil_mode"))
    out = found.counts(images[2:], up=up)
    kind = dtype(importer.dtype)
    fill = 0.0
    if reduction == "max":
        fill = -np.inf if kind.is_float else float(kind.limits[0])
    gather: Gather = "max" if reduction == "max" else "sum"
    body, finish = "x0", "x0"
    if reduction == "norm":
        p = node.number("p")
        body, finish = f"pow(abs(x0), {p})", f"pow(x0, {1 / p!r})"
    places, offsets = found.places(2, 2 + rank)
    y = straight((*images[:2], *out), tuple(range(2 + rank)))
    source = Access(images, (((0, 1),), ((1, 1),), *places), (0, 0, *offsets), fill)
    extents = (*images[:2], *out, *kernel)
    op = Definition(extents, y, (source,), body, gather, finish, importer.dtype)
    if reduction != "average":
        importer.emit(node, op, x)
        return
    total = importer.step(node, op, x, suffix="_sum")
    padded = "count_include_pad" in node.attributes and bool(node.integer("count_include_pad"))
    counts = _counts(found, images[2:], out, padded=padded)
    numbers = counts.astype(dtype(importer.file_dtype).numpy)
    name = importer.use(importer.new_constant(f"{node.output()}/counts", numbers), node.title())
    importer.emit(node, importer.mapped("x0 / x1", total, name), total, name)


def _counts(found: Windows, image: Shape, out: Shape, *, padded: bool) -> np.ndarray:
    """Elements of each window inside the image, or inside its border as well if `padded`."""
    lines = []
    sides = zip(image, found.before, found.after, found.kernel, found.dilation, found.stride, out,
                strict=True)  # fmt: skip
    for size, before, after, kernel, dilation, stride, count in sides:
        at = (np.arange(count) * stride - before)[:, None] + np.arange(kernel) * dilation
        low, high = (-before, size + after) if padded else (0, size)
        lines.append(((at >= low) & (at < high)).sum(1))
    whole = np.ones((), np.int64)
    for line in lines:
        whole = np.multiply.outer(whole, line)
    return np.maximum(whole, 1)
