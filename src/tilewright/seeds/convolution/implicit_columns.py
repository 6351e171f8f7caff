"""Convolution by implicit GEMM on whole input columns, as in swDNN's batch-size-aware plan (swDNN
IV-A, Algorithm 2).

A product takes the images of one output column. The loop over input columns stands outside that
over kernel columns: a column is fetched once for all output columns of a block that need it.
"""

from __future__ import annotations

from functools import cache

from tilewright.ops import Conv2d
from tilewright.seeds.convolution.fours import WEIGHTS_ORDER
from tilewright.seeds.convolution.implicit import direct_nest
from tilewright.seeds.convolution.tensors import (
    CHANNELS_OUTER,
    Window,
    images,
    results,
    weights,
)
from tilewright.seeds.space import Seed, Space, layout, seed

BATCH_BLOCK = 128
"""Whole register blocks of 16 images on each of the 8 cores that share them."""


@seed("conv2d", name="implicit_columns", staged=True)
def implicit_by_columns(op: Conv2d) -> Seed | None:
    """For batches of whole blocks of 128 images."""
    return images_by_columns("implicit_columns", op)


def images_by_columns(name: str, op: Conv2d) -> Seed | None:
    """The seed `name`, for batches of whole blocks of 128 images.

    An input column serves several output columns only where neighbouring taps are as far apart as
    neighbouring outputs.
    """
    meets = op.kernel[1] == 1 or op.stride[1] == op.dilation[1] == 1
    if op.batch % BATCH_BLOCK or not meets:
        return None
    return _images_by_columns(name, (op.kernel, op.stride, op.dilation))


@cache
def _images_by_columns(name: str, window: Window) -> Seed:
    x, w, y = images(), weights(window[0]), results()
    blocks = ("group", "image", "out_channel", "out_col", "out_row")
    space = (
        Space(direct_nest("batch_size_aware", window, x, w, y))
        .split("out_channel", "image", "in_channel", "out_col")
        .spread("out_channel", "rows")
        .spread("in_channel", "both")
        .spread("image", "columns")
        .skew("out_col", "kernel_col", "in_col")
        .reorder((*blocks, "in_channel", "kernel_row", "in_col", "kernel_col"))
        .vectorize("n")
        .stage(y, "in_channel")
        .stage(w, None, "in_col")
        .prefetch(w, x)
        .limit(largest=1024, most=10)
    )
    layouts = (layout(x, CHANNELS_OUTER), layout(y, CHANNELS_OUTER), layout(w, WEIGHTS_ORDER))
    return Seed(name, (x, w, y), (space,), layouts, ("x", "w"), "y")
