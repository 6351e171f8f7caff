"""Extents and tensors shared by all convolution seeds.

Images are stored with their zero border (`padding`), as swDNN and swATOP assume; channels are those
of one group.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.common.expr import Var
from tilewright.ir.nodes import TensorKind
from tilewright.ops import Conv2d
from tilewright.seeds.nest import TensorSpec, tensor
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
