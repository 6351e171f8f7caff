"""Convolution by implicit GEMM on input rows that stay for several taps, for few images.

Where images are few a product of one tap takes the pixels of several output rows. Tap by tap each
core fetches its part of the images as often as the kernel has taps. Here it keeps

* for one kernel column, the rows that all rows of the kernel need: output rows one after the other
  are a matrix at any of them, so that one product takes them together;
* for one kernel row, whole input rows with their border, which serve all columns of the kernel:
  products take one output row each, because what they need of neighbouring rows has a gap between.

From one kernel column to the next the pixels of a row move by one, so they are no aligned vectors:
vectors run along output channels, or along pixels that the primitive packs of images with the
channels of a pixel contiguous, while those of the results are not.
"""

from __future__ import annotations

from functools import cache

from tilewright.ops import Conv2d
from tilewright.seeds.convolution.implicit import FEW_IMAGES, direct_nest
from tilewright.seeds.convolution.tensors import (
    CHANNELS_INNER,
    CHANNELS_OUTER,
    Window,
    images,
    results,
    weights,
)
from tilewright.seeds.space import Alternative, Seed, Space, seed
from tilewright.seeds.steps import Layout, Pad, Reorder, Spread, Stage, Vectorize, Walk

_TAPS = ("group", "kernel_rows", "kernel_cols")
"""The slowest dimensions of the weights."""
_LAYOUTS = tuple(
    (Layout("x", x), Layout("y", y), Layout("w", (*_TAPS, *w)))
    for x, y, w in (
        (CHANNELS_INNER, CHANNELS_OUTER, ("out_channels", "in_channels")),
        (CHANNELS_OUTER, CHANNELS_INNER, ("in_channels", "out_channels")),
        (CHANNELS_INNER, CHANNELS_INNER, ("in_channels", "out_channels")),
        (CHANNELS_INNER, CHANNELS_INNER, ("out_channels", "in_channels")),
        (CHANNELS_OUTER, CHANNELS_OUTER, ("in_channels", "out_channels")),
        (CHANNELS_OUTER, CHANNELS_OUTER, ("out_channels", "in_channels")),
    )
)
"""Storage orders of images, results and weights that some layer is fastest with."""
_BLOCKS = ("group", "out_channel", "out_row", "out_col", "image", "in_channel")
"""The loops outside the taps."""


@seed("conv2d", name="implicit_rows", staged=True)
def implicit_by_rows(op: Conv2d) -> Seed | None:
    """For few images and kernels of several taps over neighbouring columns."""
    if op.batch >= FEW_IMAGES or op.kernel == (1, 1) or op.stride[1] > 1:
        return None
    return _implicit_by_rows((op.kernel, op.stride, op.dilation))


@cache
def _implicit_by_rows(window: Window) -> Seed:
    x, w, y = images(), weights(window[0]), results()
    space = (
        Space(direct_nest("rows_that_stay", window, x, w, y))
        .split("out_channel", "image", "in_channel", "out_row", "out_col")
        .fuse("out_row", into="n")
        .fuse("out_col", into="n")
        .spread("out_channel", "rows")
        .spread("in_channel", "both")
        .choose(
            *_for_a_kernel_row("n", "kernel_col"),
            *_for_a_kernel_row("m", "kernel_col", "kernel_row"),
            _for_a_kernel_column("n", "out_row"),
            _for_a_kernel_column("n", "out_col"),
            _for_a_kernel_column("m", "out_col"),
        )
        .prefetch(y, w, x)
        .limit(largest=1024, most=5)
    )
    return Seed("implicit_rows", (x, w, y), (space,), (_LAYOUTS,), ("x", "w"), "y")


def _for_a_kernel_column(vector: str, spread: str) -> Alternative:
    """Fetch images and weights at once for all kernel rows of a kernel column."""
    order = Reorder((*_BLOCKS, "kernel_col", "kernel_row"))
    staged = Stage("x", "kernel_row"), Stage("w", "kernel_row")
    return Spread(spread, "columns"), order, Vectorize(vector), *staged


def _for_a_kernel_row(vector: str, *places: str) -> tuple[Alternative, ...]:
    """Fetch whole input rows, with the weights of a tap or of a kernel row; input rows of all
    kernel rows together only with the weights of a single tap.
    """
    rows = Spread("out_row", "columns"), Walk("out_row", "core_row"), Pad("out_col")
    order = Reorder((*_BLOCKS, "kernel_row", "kernel_col", "core_row"))
    every = *rows, order, Vectorize(vector), Stage("y", "in_channel")
    tap_by_tap = tuple((*every, Stage("x", place)) for place in places)
    return *tap_by_tap, (*every, Stage("x", "kernel_col"), Stage("w", "kernel_col"))
