"""ONNX's operators on windows of any rank: convolution, transposed convolution, pooling. Windows
other than those of two-dimensional images become definitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import Literal

import numpy as np

from tilewright.common.dtypes import dtype
from tilewright.common.errors import GraphError
from tilewright.graph.frontends.onnx.declare import Operator
from tilewright.graph.frontends.onnx.importer import Importer
from tilewright.graph.frontends.onnx.model import OnnxNode
from tilewright.ops import Pool2d, Reduce
from tilewright.ops.access import straight
from tilewright.ops.definition import Definition, Gather
from tilewright.ops.definitions import Place, access, along, assembled
from tilewright.ops.gathering import Reduction
from tilewright.ops.gradient import scattered
from tilewright.ops.op import Op, Shape

IMAGES = "images of 4 dimensions"
IMAGE_RANK = 4
"""Rank of a batch of two-dimensional images, which have operators of their own."""


@dataclass(frozen=True)
class _Windows:
    """Windows of `kernel` elements, with all numbers per spatial dimension."""

    kernel: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape

    @property
    def span(self) -> Shape:
        """Extent of a window from its first to its last element, dilation included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    def counts(self, image: Shape, *, up: bool = False) -> Shape:
        """Windows along each dimension; with `up`, also a partial last one that starts inside."""
        found = []
        sides = zip(image, self.before, self.after, self.span, self.stride, strict=True)
        for size, before, after, span, stride in sides:
            room = size + before + after - span
            count = (-(-room // stride) if up else room // stride) + 1
            found.append(count - (up and (count - 1) * stride >= size + before))
        return tuple(found)

    def places(self, outer: int, inner: int, before: Shape) -> tuple[Place, ...]:
        """Indices over the axes of windows, from `outer` on, and their elements, from `inner`."""
        steps = zip(self.stride, self.dilation, before, strict=True)
        return tuple(
            (((outer + d, s), (inner + d, t)), -n) for d, (s, t, n) in enumerate(steps)
        )  # fmt: skip


def listed(node: OnnxNode, name: str, count: int, otherwise: int) -> Shape:
    """An attribute of `count` numbers, all `otherwise` if missing. Raises GraphError for another
    length.
    """
    found = node.integers(name) if name in node.attributes else (otherwise,) * count
    if len(found) != count:
        raise GraphError(f"{node.title()}: {name} must be {count} integers, found {found}")
    return found


def node_windows(node: OnnxNode, image: Shape, kernel: Shape) -> _Windows:
    """The windows that a node's attributes describe, padded by `pads` or the older `auto_pad`."""
    rank, mode = len(kernel), node.text("auto_pad")
    stride, dilation = (listed(node, name, rank, 1) for name in ("strides", "dilations"))
    if min((*stride, *dilation, *kernel), default=1) < 1:
        raise GraphError(f"{node.title()}: strides, dilations and kernels must be positive")
    pads = listed(node, "pads", 2 * rank, 0) if mode == "NOTSET" else (0,) * 2 * rank
    found = _Windows(kernel, stride, dilation, pads[:rank], pads[rank:])
    if mode in ("NOTSET", "VALID"):
        return found
    total = [_same(node, *side) for side in zip(image, found.span, stride, strict=True)]
    halves, others = tuple(n // 2 for n in total), tuple(n - n // 2 for n in total)
    sides = (halves, others) if mode == "SAME_UPPER" else (others, halves)
    return _Windows(kernel, stride, dilation, *sides)


def _same(node: OnnxNode, size: int, reach: int, step: int) -> int:
    """Padding such that there is one window per stride.

    Raises GraphError if windows skip more than a last pixel, since runtimes disagree on which.
    """
    total = (-(-size // step) - 1) * step + reach - size
    if total < -1:
        raise GraphError(
            f"{node.title()}: auto_pad with windows of {reach} pixels and a stride of "
            f"{step} would leave out {-total} of {size} pixels",
            fix="export the model with pads",
        )
    return max(total, 0)


def convolution(at: Importer, images: Shape, weights: Shape) -> Definition:
    """The definition of a convolution of any rank, with any number of groups."""
    rank, groups = len(images) - 2, at.node.integer("group")
    if len(weights) != rank + 2 or rank < 1 or groups < 1 or images[1] % groups or (
        weights[0] % groups or weights[1] * groups != images[1]):  # fmt: skip
        raise at.wrong(f"weights of {weights} do not fit images of {images}")
    found = node_windows(at.node, images[2:], weights[2:])
    out = found.counts(images[2:])
    if min(out) < 1:
        raise at.wrong(f"windows of {found.span} are larger than the padded images of {images}")
    inputs, outputs = weights[1], weights[0] // groups
    n, o, first, i = 0, 1, 2, 2 + rank
    taps, group = i + 1, i + 1 + rank
    extents = (images[0], outputs, *out, inputs, *weights[2:], groups)
    channel: Place = (((group, outputs), (o, 1)), 0)
    y = access((images[0], weights[0], *out), *along(n), channel, *along(*range(first, i)))
    places = found.places(first, taps, found.before)
    x = access(images, *along(n), (((group, inputs), (i, 1)), 0), *places, fill=0.0)
    w = access(weights, channel, *along(i, *range(taps, group)))
    return Definition(extents, y, (x, w), "x0 * x1", "sum", "x0", at.dtype)


def _transposed(at: Importer) -> None:
    """ConvTranspose: each element adds its multiple of the weights to a window of the result."""
    images, weights = at.shape(0), at.shape(1)
    rank, groups = len(images) - 2, at.node.integer("group")
    if rank < 1 or len(weights) != len(images) or groups < 1 or weights[0] != images[1] or (
        images[1] % groups):  # fmt: skip
        raise at.wrong(f"weights of {weights} do not fit images of {images}")
    kernel, inputs, outputs = weights[2:], images[1] // groups, weights[1]
    stride, dilation = (listed(at.node, name, rank, 1) for name in ("strides", "dilations"))
    if min(*stride, *dilation) < 1:
        raise at.wrong("strides and dilations must be positive")
    found = _Windows(kernel, stride, dilation, (), ())
    whole = tuple((n - 1) * s + k for n, s, k in zip(images[2:], stride, found.span, strict=True))
    before, size = _cropping(at.node, images[2:], stride, whole)
    n, o, first, i = 0, 1, 2, 2 + rank
    taps, group = i + 1, i + 1 + rank
    extents = (images[0], outputs, *images[2:], inputs, *kernel, groups)
    y = access((images[0], outputs * groups, *size), *along(n), (((group, outputs), (o, 1)), 0),
               *found.places(first, taps, before))  # fmt: skip
    channel: Place = (((group, inputs), (i, 1)), 0)
    x = access(images, *along(n), channel, *along(*range(first, i)))
    w = access(weights, channel, *along(o, *range(taps, group)))
    parts = scattered(extents, y, (x, w), dtype=at.dtype)
    with_bias(at, assembled(parts, [(0, 1)] * len(parts), at.dtype))


def _cropping(node: OnnxNode, image: Shape, stride: Shape, whole: Shape) -> tuple[Shape, Shape]:
    """The number of elements cropped before the result, and the result's extents."""
    rank, mode = len(image), node.text("auto_pad")
    more = listed(node, "output_padding", rank, 0)
    if "output_shape" in node.attributes:
        size = node.integers("output_shape")[-rank:]
    elif mode in ("SAME_UPPER", "SAME_LOWER"):
        size = tuple(n * s for n, s in zip(image, stride, strict=True))
    else:
        pads = listed(node, "pads", 2 * rank, 0)
        ends = zip(whole, more, pads[:rank], pads[rank:], strict=True)
        return pads[:rank], tuple(w + m - a - b for w, m, a, b in ends)
    total = [max(0, w + m - n) for w, m, n in zip(whole, more, size, strict=True)]
    return tuple(t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in total), size


def with_bias(at: Importer, op: Op) -> None:
    """Append an operator on the first two inputs, plus the third per channel, if any."""
    names = at.operand(0), at.operand(1)
    if not at.node.has_input(2):
        at.emit(op, *names)
        return
    wide = (*at.shape(2), *(1,) * (len(op.out_shape) - 2))
    at.map("x0 + x1", at.step(op, *names), at.reshaped(at.operand(2), wide, "_along"))


def _of_images(
    at: Importer, reduction: Reduction, own: _Windows, *, ceil: bool = False, padded: bool = False
) -> Pool2d:
    (batch, channels, height, width), (rows, columns) = at.images(), own.kernel
    (down, right), (top, left), (bottom, behind) = own.stride, own.before, own.after
    pads = (top, left, bottom, behind)
    return Pool2d(reduction, batch, channels, height, width, (rows, columns), (down, right), pads,
                  ceil, padded, at.dtype)  # fmt: skip


def _pool(at: Importer, *, reduction: Reduction | Literal["norm"]) -> None:
    """Append the maximum, the mean or the norm of windows."""
    x, images = at.operand(0), at.shape(0)
    rank, kind = len(images) - 2, dtype(at.dtype)
    found = node_windows(at.node, images[2:], listed(at.node, "kernel_shape", rank, 1))
    up, padded = at.node.flag("ceil_mode"), at.node.flag("count_include_pad")
    plain = len(images) == IMAGE_RANK and set(found.dilation) == {1} and kind.is_float
    if plain and reduction != "norm":
        op: Op = _of_images(at, reduction, found, ceil=up, padded=padded)
        at.emit(op, x)
        return
    out = found.counts(images[2:], up=up)
    body, finish, fill = "x0", "x0", 0.0
    if reduction == "max":
        fill = -np.inf if kind.is_float else float(kind.limits[0])
    elif reduction == "norm":
        body, finish = _norm(at)
    y = straight((*images[:2], *out), tuple(range(2 + rank)))
    source = access(images, *along(0, 1), *found.places(2, 2 + rank, found.before), fill=fill)
    gather: Gather = "max" if reduction == "max" else "sum"
    op = Definition((*y.shape, *found.kernel), y, (source,), body, gather, finish, at.dtype)
    if reduction == "average":
        counts = at.held("counts", _counts(found, images[2:], out, padded=padded))
        at.map("x0 / x1", at.step(op, x, suffix="_sum"), counts)
    else:
        at.emit(op, x)


def _counts(found: _Windows, image: Shape, out: Shape, *, padded: bool) -> np.ndarray:
    """Number of elements of each window inside the image; if `padded`, inside its border, too."""
    lines = []
    sides = zip(image, found.before, found.after, found.kernel, found.dilation, found.stride, out,
                strict=True)  # fmt: skip
    for size, before, after, kernel, dilation, stride, count in sides:
        places = (np.arange(count) * stride - before)[:, None] + np.arange(kernel) * dilation
        low, high = (-before, size + after) if padded else (0, size)
        lines.append(((places >= low) & (places < high)).sum(1))
    return np.asarray(np.maximum(reduce(np.multiply.outer, lines), 1), np.float64)


def _global_pool(at: Importer, *, reduction: Reduction) -> None:
    shape, inner = at.shape(0), at.shape(0)[2:]
    if len(shape) == IMAGE_RANK:
        own = _Windows(inner, inner, (1, 1), (0, 0), (0, 0))
        at.emit(_of_images(at, reduction, own), at.operand(0))
    else:
        function = "max" if reduction == "max" else "mean"
        at.emit(Reduce(function, shape, tuple(range(2, len(shape))), at.dtype), at.operand(0))


def _lp_global(at: Importer) -> None:
    shape, (power, root) = at.shape(0), _norm(at)
    total = Reduce("sum", shape, tuple(range(2, len(shape))), at.dtype)
    at.map(root, at.step(total, at.each(power, at.operand(0)), suffix="_sum"))


def _norm(at: Importer) -> tuple[str, str]:
    """The expression of a norm's terms, and the expression over their sum."""
    if (p := at.node.number("p")) < 1:
        raise at.wrong(f"p = {p:g}, and a norm has at least 1")
    return f"pow(abs(x0), {p})", f"pow(x0, {1 / p!r})"


READ = (
    Operator("AveragePool", partial(_pool, reduction="average"), "number"),
    Operator("ConvTranspose", _transposed),
    Operator("GlobalAveragePool", partial(_global_pool, reduction="average")),
    Operator("GlobalLpPool", _lp_global),
    Operator("GlobalMaxPool", partial(_global_pool, reduction="max")),
    Operator("LpPool", partial(_pool, reduction="norm")),
    Operator("MaxPool", partial(_pool, reduction="max"), "number"),
)
