"""Extents, tensors and loops shared by all convolution seeds.

Images are stored with their zero border (`padding`), as swDNN and swATOP assume. Channel extents
count the channels of one group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from tilewright.common.expr import Const, IntLike, Var
from tilewright.ir.nodes import TensorKind
from tilewright.ops import Conv2d
from tilewright.seeds.nest import TensorSpec, tensor
from tilewright.seeds.space import INTERFACES, NestInterface, Seed, SeedRule, seed

BATCH, GROUPS = Var("batch"), Var("groups")
IN_CHANNELS, OUT_CHANNELS = Var("in_channels"), Var("out_channels")
OUT_ROWS, OUT_COLS = Var("out_rows"), Var("out_cols")

BORDERS = {
    "in_rows": ("zeros_above", "zeros_below"),
    "in_cols": ("zeros_before", "zeros_behind"),
}
"""For each bordered extent of the images, the counts of its leading and trailing zeros."""
Window = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
"""Kernel size, stride and dilation, each rows then columns."""
PIXELS_INNER = ("group", "rows", "channels", "cols", "batch")
"""Storage order of images with the pixels of a row contiguous, image by image."""
CHANNELS_INNER = ("group", "rows", "cols", "batch", "channels")
"""Storage order of images with the channels of a pixel contiguous."""
CHANNELS_OUTER = ("group", "channels", "rows", "cols", "batch")
"""Storage order of images with the pixels of a channel contiguous, row by row."""


def images(padding: tuple[int, int, int, int] = (0, 0, 0, 0)) -> TensorSpec:
    """The input images; `padding` is the known border: top, left, bottom, right."""
    dims = "group=groups, channels=in_channels, rows=in_rows, cols=in_cols, batch=batch"
    top, left, bottom, right = padding
    border = tuple(b for b in (("rows", top, bottom), ("cols", left, right)) if any(b[1:]))
    return replace(tensor("x", "input", dims, operand=0), zeros=border)


def weights(kernel: tuple[int, int], kind: TensorKind = "constant") -> TensorSpec:
    """The kernels; `kind` is "input" where a run computes them, as in a weight gradient."""
    dims = "group=groups, out_channels=out_channels, in_channels=in_channels"
    return tensor("w", kind, dims, operand=1, kernel_rows=kernel[0], kernel_cols=kernel[1])


def results() -> TensorSpec:
    """The output images."""
    dims = "group=groups, channels=out_channels, rows=out_rows, cols=out_cols, batch=batch"
    return tensor("y", "output", dims)


def in_blocks(lanes: int) -> tuple[TensorSpec, TensorSpec]:
    """Images and results with the batch split into blocks of `lanes` contiguous images."""
    blocks = (("image_blocks", BATCH // lanes), ("images", Const(lanes)))
    x, y = (replace(t, dims=(*t.dims[:-1], *blocks)) for t in (images(), results()))
    return x, y


# The elements that one step of the seven loops (swATOP Alg. 1) touches; `image` names the axes that
# count images.
KERNEL = "group, out_channel, in_channel, kernel_row, kernel_col"


def pixel(image: str = "image") -> str:
    """The index of the result element; `image` names the axes that count images."""
    return f"group, out_channel, out_row, out_col, {image}"


def under(window: Window, image: str = "image") -> str:
    """The index of the image element under a kernel tap."""
    row, col = window[2]
    return behind(window, f"kernel_row * {row}", f"kernel_col * {col}", image)


def behind(window: Window, rows: str, columns: str, image: str = "image") -> str:
    """The index of the image element `rows` and `columns` after the first one of a window."""
    down, right = window[1]
    return f"group, in_channel, out_row * {down} + {rows}, out_col * {right} + {columns}, {image}"


def reach_of(window: Window) -> dict[str, IntLike]:
    """Extents of axes over the rows and columns that a window spans, gaps of dilation included."""
    row, col = ((n - 1) * d + 1 for n, d in zip(window[0], window[2], strict=True))
    return {"in_row": row, "in_col": col}


def for_windows(
    name: str, applies: Callable[[Conv2d], bool] = lambda op: True, **where: bool
) -> Callable[[Callable[[Window], Seed]], SeedRule]:
    """Register a function from a window to the seed `name`, cached by window. The seed covers
    convolutions that it `applies` to, on machines that the keywords of `seed` select.
    """

    def register(build: Callable[[Window], Seed]) -> SeedRule:
        made = cache(build)

        def rule(op: Conv2d) -> Seed | None:
            return made((op.kernel, op.stride, op.dilation)) if applies(op) else None

        return seed("conv2d", name=name, **where)(rule)

    return register


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
        **dict(zip(chain(*BORDERS.values()), (top, bottom, left, right), strict=True)),
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
