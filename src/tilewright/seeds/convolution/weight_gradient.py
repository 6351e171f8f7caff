"""Convolution whose kernel is an image: the gradient by the weights of another convolution.

There the channels of the images count as images, the images as channels, the pixels of the result's
gradient as kernel, and the taps are the few pixels of the result. All of a result's tile stays in
the scratchpad while the sum runs over pixels and images; the inputs of a pixel's taps are fetched
at once, and those of several columns may be one sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from tilewright.ops import Conv2d
from tilewright.seeds.convolution.implicit import direct_nest
from tilewright.seeds.convolution.tensors import BATCH, Window, images, results, weights
from tilewright.seeds.nest import axis
from tilewright.seeds.space import Alternative, Seed, Space, layout, seed, tile_factor
from tilewright.seeds.steps import Fuse, Reorder, Split, Stage, Vectorize

_LEAST_TAPS, _MOST_TAPS = 4, 49
"""Pixels of a result that stay in scratchpads beside each other. The gradient of a kernel of one
tap is a matrix product.
"""
_PIXELS = tuple(
    ("group", "rows", *order)
    for order in (("cols", "channels", "batch"), ("cols", "batch", "channels"))
)
_KERNEL = ("group", "kernel_rows", "kernel_cols")
_TILES = ("group", "out_channel", "image")
_SUMS = ("kernel_row", "kernel_col", "in_channel")
_TAPS = ("out_row", "out_col")


@seed("conv2d", name="weight_gradient", staged=True)
def weight_gradient(op: Conv2d) -> Seed | None:
    """For kernels that are larger than the result."""
    taps = op.out_height * op.out_width
    if not _LEAST_TAPS <= taps <= _MOST_TAPS or op.kernel[0] * op.kernel[1] < 2 * taps:
        return None
    return _weight_gradient((op.kernel, op.stride, op.dilation))


@cache
def _weight_gradient(window: Window) -> Seed:
    x, w, y = images(), weights(window[0]), results()
    image = axis("image", BATCH)
    conv = direct_nest("weight_gradient", window, x, w, y, batch=image)
    out_channel, in_channel = conv.axis("out_channel"), conv.axis("in_channel")
    space = (
        Space(conv)
        .split(out_channel, image, in_channel)
        .choose(*_products())
        .spread(out_channel, "rows")
        .spread(image, "columns")
        .spread(in_channel, "both")
        .prefetch(w, x)
        .limit(largest=1024, most=5)
    )
    layouts = (
        layout(x, *_PIXELS),
        layout(
            w, (*_KERNEL, "in_channels", "out_channels"), (*_KERNEL, "out_channels", "in_channels")
        ),
        layout(y, *_PIXELS),
    )
    return Seed("weight_gradient", (x, w, y), (space,), layouts, ("x", "w"), "y")


def _products() -> Iterator[Alternative]:
    """A product for each tap, whose sum runs over images or over columns too."""
    joined = Split("kernel_col", tile_factor("kernel_col")), Fuse("kernel_col", "k")
    order = Reorder((*_TILES, *_SUMS, *_TAPS))
    for columns, letter in product(((), joined), "mn"):
        yield *columns, order, Vectorize(letter), Stage("y", _SUMS[0]), Stage("x", _TAPS[0])
