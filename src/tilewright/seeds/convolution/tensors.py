"""Extents, tensors and loops shared by all convolution seeds.

Images are stored with their zero border (`padding`), as swDNN and swATOP assume; channels are those
of one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.common.expr import Const, Expr, IntLike, Var
from tilewright.ir.nodes import TensorKind
from tilewright.ops import Conv2d
from tilewright.seeds.nest import Axis, TensorSpec, Use, axis, tensor
from tilewright.seeds.space import INTERFACES, NestInterface

BATCH, GROUPS = Var("batch"), Var("groups")
IN_CHANNELS, OUT_CHANNELS = Var("in_channels"), Var("out_channels")
IN_ROWS, IN_COLS, OUT_ROWS, OUT_COLS = (
    Var(name) for name in ("in_rows", "in_cols", "out_rows", "out_cols")
)

Window = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
"""Kernel size, stride and dilation, each rows then columns."""
PIXELS_INNER = ("group", "rows", "channels", "cols", "batch")
"""Storage order of images with the pixels of a row contiguous, image by image."""
CHANNELS_INNER = ("group", "rows", "cols", "batch", "channels")
"""Storage order of images with the channels of a pixel contiguous."""
CHANNELS_OUTER = ("group", "channels", "rows", "cols", "batch")
"""Storage order of images with the pixels of a channel contiguous, row by row."""


def images() -> TensorSpec:
    """The input images with their border."""
    return tensor(
        "x",
        "input",
        operand=0,
        group=GROUPS,
        channels=IN_CHANNELS,
        rows=IN_ROWS,
        cols=IN_COLS,
        batch=BATCH,
    )


def weights(kernel: tuple[int, int], kind: TensorKind = "constant") -> TensorSpec:
    """The kernels, of which those that only a run makes are another `kind`."""
    return tensor(
        "w",
        kind,
        operand=1,
        group=GROUPS,
        out_channels=OUT_CHANNELS,
        in_channels=IN_CHANNELS,
        kernel_rows=kernel[0],
        kernel_cols=kernel[1],
    )


def results() -> TensorSpec:
    """The output images."""
    return tensor(
        "y",
        "output",
        group=GROUPS,
        channels=OUT_CHANNELS,
        rows=OUT_ROWS,
        cols=OUT_COLS,
        batch=BATCH,
    )


def in_blocks(lanes: int) -> tuple[TensorSpec, TensorSpec]:
    """Images and results in blocks of so many images, which lie side by side."""
    blocks = (("image_blocks", BATCH // lanes), ("images", Const(lanes)))
    x, y = (replace(t, dims=(*t.dims[:-1], *blocks)) for t in (images(), results()))
    return x, y


def block_axes(lanes: int) -> dict[str, Axis]:
    """The axes of blocks of images, and of the images of one, by their dimensions."""
    block, lane = axis("image_block", BATCH // lanes), axis("lane", lanes, inner=True)
    return {"image_blocks": block, "images": lane}


@dataclass(frozen=True)
class ConvolutionLoops:
    """The axes of a convolution by name (swATOP Alg. 1), and the elements that one step touches.

    `counting` gives the axis of each dimension that counts images.
    """

    window: Window
    axes: Mapping[str, Axis]
    counting: dict[str, Axis]

    def named(self, names: str) -> tuple[Axis, ...]:
        """The axes of these names, in order."""
        return tuple(map(self.axes.__getitem__, names.split()))

    def roles(self, **letters: str) -> dict[str, tuple[Axis, ...]]:
        """The axes that each letter of a primitive names."""
        return {letter: self.named(names) for letter, names in letters.items()}

    def kernels(self, w: TensorSpec) -> Use:
        """The element of the kernels."""
        names = "group out_channel in_channel kernel_row kernel_col"
        dims = ("group", "out_channels", "in_channels", "kernel_rows", "kernel_cols")
        return w.at(**dict(zip(dims, self.named(names), strict=True)))

    def pixel(self, y: TensorSpec) -> Use:
        """The element of the results."""
        axes = self.named("group out_channel out_row out_col")
        named = zip(("group", "channels", "rows", "cols"), axes, strict=True)
        return y.at(**dict(named), **self.counting)

    def under(self, x: TensorSpec, *tap: Axis, **other: Axis) -> Use:
        """The element of the images under a tap of the kernel, or as many rows and columns as `tap`
        says behind the first pixel; dimensions with an `other` axis are counted by that.
        """
        group, channel, *taps = self.named("group in_channel kernel_row kernel_col")
        steps = zip(taps, self.window[2], strict=True)
        behind: list[Expr] = [a.var for a in tap]
        behind = behind or [a.var * step for a, step in steps]
        pixels = zip(self.named("out_row out_col"), self.window[1], behind, strict=True)
        rows, cols = (a.var * stride + place for a, stride, place in pixels)
        dims = {"group": group, "channels": channel, "rows": rows, "cols": cols}
        return x.at(**dims | self.counting | other)


def convolution_loops(
    window: Window, *more: Axis, inner: str = "", counting: dict[str, Axis] | None = None
) -> ConvolutionLoops:
    """The seven loops and `more`; those named `inner` are taken whole by a primitive."""
    kernel, taken = window[0], inner.split()
    extents: dict[str, IntLike] = {
        "group": GROUPS, "out_channel": OUT_CHANNELS, "in_channel": IN_CHANNELS,
        "out_row": OUT_ROWS, "out_col": OUT_COLS, "kernel_row": kernel[0], "kernel_col": kernel[1],
    }  # fmt: skip
    images = counting or {"batch": axis("image", BATCH)}
    every = (axis(name, n, inner=name in taken) for name, n in extents.items())
    axes = {a.name: a for a in (*every, *images.values(), *more)}
    return ConvolutionLoops(window, axes, images)


def reach_of(window: Window) -> tuple[Axis, Axis]:
    """Axes over the rows and the columns under a window, those between its taps too."""
    row, col = ((n - 1) * d + 1 for n, d in zip(window[0], window[2], strict=True))
    return axis("in_row", row, inner=True), axis("in_col", col, inner=True)


def _parameters(op: Conv2d) -> dict[str, int]:
    top, left, bottom, right = op.padding
    return {
        "batch": op.batch,
        "groups": op.groups,
        "in_channels": op.in_channels // op.groups,
        "out_channels": op.out_channels // op.groups,
        "in_rows": op.height + top + bottom,
        "in_cols": op.width + left + right,
        "out_rows": op.out_height,
        "out_cols": op.out_width,
    }


def _arrange(op: Conv2d, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    x, w = operands
    top, left, bottom, right = op.padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    x = x.reshape(op.batch, op.groups, -1, *x.shape[2:]).transpose(1, 2, 3, 4, 0)
    return x, w.reshape(op.groups, op.out_channels // op.groups, *w.shape[1:])


def _restore(op: Conv2d, y: Any) -> Any:
    by_image = y.reshape(op.groups, -1, op.out_height, op.out_width, op.batch)
    return by_image.transpose(4, 0, 1, 2, 3).reshape(op.out_shape)


INTERFACES["conv2d"] = NestInterface("conv2d", _parameters, _arrange, _restore)
