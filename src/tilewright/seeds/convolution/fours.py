"""Convolution by implicit GEMM on images stored in vectors of four, as in swDNN's image-size-aware
plan (swDNN IV-A, Algorithm 1).

A core's four images of one pixel are one vector, and those of a run of columns are contiguous: the
pixels of a product fill whole vectors whatever number of columns there is, and transfers have long
blocks although the cores of a row share the images. Output columns may be padded to whole register
blocks, images are not: other batches have no such schedule.
"""

from __future__ import annotations

from functools import cache

from tilewright.ops import Conv2d
from tilewright.seeds.convolution.implicit import TAPS, direct_nest
from tilewright.seeds.convolution.tensors import (
    Window,
    in_blocks,
    weights,
)
from tilewright.seeds.space import Seed, Space, layout, seed

LANES = 4
"""Images of one vector, the fastest dimension of images and results."""

IMAGE_BLOCK = 32
"""A vector of images on each of the 8 cores that share them."""

IMAGES_ORDER = ("group", "channels", "rows", "image_blocks", "cols", "images")
"""Storage order of images and results."""
WEIGHTS_ORDER = ("group", "kernel_rows", "kernel_cols", "out_channels", "in_channels")


@seed("conv2d", name="implicit_fours", staged=True)
def implicit_by_fours(op: Conv2d) -> Seed | None:
    """For batches of whole blocks of 32 images."""
    return images_in_fours("implicit_fours", op)


def images_in_fours(name: str, op: Conv2d) -> Seed | None:
    """The seed `name`, for batches of whole blocks of 32 images; input columns are fetched tap by
    tap or for a whole kernel row.
    """
    if op.batch % IMAGE_BLOCK:
        return None
    return _images_in_fours(name, (op.kernel, op.stride, op.dilation))


@cache
def _images_in_fours(name: str, window: Window) -> Seed:
    x, y = in_blocks(LANES)
    w = weights(window[0])
    conv = direct_nest("image_size_aware", window, x, w, y, "image_block", "lane")
    order = ("group", "out_channel", "image_block", "out_row", "out_col", *TAPS)
    space = (
        Space(conv)
        .split("out_channel", "image_block", "in_channel", "out_col")
        .fuse("out_col", into="n")
        .pad("out_col")
        .spread("out_channel", "rows")
        .spread("in_channel", "both")
        .spread("image_block", "columns")
        .reorder(order)
        .vectorize("n")
        .stage(x, None, "kernel_col")
        .prefetch(w, x)
        .limit(largest=1024, most=10)
    )
    layouts = (layout(x, IMAGES_ORDER), layout(y, IMAGES_ORDER), layout(w, WEIGHTS_ORDER))
    return Seed(name, (x, w, y), (space,), layouts, ("x", "w"), "y")
