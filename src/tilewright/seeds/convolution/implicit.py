"""Convolution by implicit GEMM: the direct loops with a matrix product innermost (swATOP Fig. 4,
Alg. 2).

For each kernel tap the output channels x pixels block is a product of weights (out x in channels)
and images (in channels x pixels). Pixels are those of several images, of several columns, or both;
of several rows too where images are few.
"""

from __future__ import annotations

from functools import cache

from tilewright.ops import Conv2d
from tilewright.seeds.convolution.tensors import (
    CHANNELS_INNER,
    CHANNELS_OUTER,
    KERNEL,
    PIXELS_INNER,
    Window,
    images,
    pixel,
    results,
    under,
    weights,
)
from tilewright.seeds.nest import Nest, TensorSpec, nest
from tilewright.seeds.space import Seed, Space, seed, tile_factor
from tilewright.seeds.steps import Fuse, Layout, Reorder, Split, Spread, Stage, Step, Vectorize

Pair = tuple[int, int]

TAPS = ("in_channel", "kernel_row", "kernel_col")
"""The reduction loops."""

_BLOCKS = (
    ("group", "out_channel", "out_row", "out_col", "image"),
    ("group", "out_row", "out_col", "image", "out_channel"),
)
"""The loops around the reduction."""

FEW_IMAGES = 32
"""Below this a core may hold less than a vector of images of one pixel, and the pixels of one row
may be too few to pay for the weights."""
_FEW_PIXEL_VALUES = 4096
"""Images times input channels, of at least `FEW_IMAGES`. Up to here the taps of a whole kernel fit
beside tiles that are large enough, and a product of one kernel row spends a noticeable part of its
time on more than arithmetic."""


@seed("conv2d", name="implicit")
def implicit_gemm(op: Conv2d) -> Seed:
    """The seed for one kernel size, stride and dilation."""
    values = max(op.batch, FEW_IMAGES) * op.in_channels // op.groups
    few = op.batch < FEW_IMAGES, values <= _FEW_PIXEL_VALUES
    return _implicit_gemm(op.kernel, op.stride, op.dilation, *few)


@cache
def _implicit_gemm(
    kernel: Pair, stride: Pair, dilation: Pair, few_images: bool, few_channels: bool
) -> Seed:
    x, w, y = images(), weights(kernel), results()
    space = (
        Space(direct_nest("implicit", (kernel, stride, dilation), x, w, y))
        .split("out_channel", "image", "in_channel", "out_col")
        .fuse("out_col", into="n")
        .spread("out_channel", "rows")
        .spread("in_channel", "both")
        .choose(*_pixels(few_images))
        .choose(*_orders(kernel, stride, few_images, few_channels))
        .prefetch(y, w, x)
        .limit(largest=1024, most=5)
    )
    return Seed("implicit", (x, w, y), (space,), _layouts(few_images), ("x", "w"), "y")


def direct_nest(
    name: str,
    window: Window,
    x: TensorSpec,
    w: TensorSpec,
    y: TensorSpec,
    images: str = "image",
    lane: str = "",
) -> Nest:
    """The seven loops of a convolution (swATOP Alg. 1) around a matrix product of one tap.

    The product's n are the images, those of a block a `lane` each where they come in blocks.
    """
    counted, place = f"{images} {lane}", ", ".join(filter(None, (images, lane)))
    return nest(
        name,
        "gemm",
        f"group out_row out_col {counted} out_channel in_channel kernel_row kernel_col",
        {"m": "out_channel", "n": counted, "k": "in_channel"},
        y.on(pixel(place)),
        w.on(KERNEL),
        x.on(under(window, place)),
        inner=lane,
    )


def _pixels(few_images: bool) -> tuple[tuple[Step, ...], ...]:
    """Whose pixels one product takes, and which of them are spread over the cores: few images may
    join several rows."""
    by_image, by_col = (Spread("image", "columns"),), (Spread("out_col", "columns"),)
    if not few_images:
        return by_image, by_col
    rows = Split("out_row", tile_factor("out_row")), Fuse("out_row", "n")
    return by_image, by_col, (*rows, *by_col), (*rows, Spread("out_row", "columns"))


def _orders(
    kernel: Pair, stride: Pair, few_images: bool, few_channels: bool
) -> tuple[tuple[Step, ...], ...]:
    """Loop orders, the vector dimension, and operands fetched at once. Taps without work between
    their products are a chain (`ir.chains`).
    """
    found: list[tuple[Step, ...]] = []
    for blocks in _BLOCKS:
        # Of many images the pixels go by inside: weights of a whole kernel are fetched once.
        kernels = few_channels and (few_images or blocks == _BLOCKS[0])
        staging = [(TAPS, s) for s in _staging(kernel, stride, few_images, kernels)]
        if few_images and kernel[0] > 1:
            # Rows of pixels that a product joins are whole: a column of the kernel can share them.
            staging.append((("in_channel", "kernel_col", "kernel_row"), _whole("kernel_row")))
        loops = ((Reorder((*blocks, *taps)), stages) for taps, stages in staging)
        found += ((order, Vectorize(v), *stages) for order, stages in loops for v in "mn")
    return tuple(found)


def _staging(
    kernel: Pair, stride: Pair, few_images: bool, kernels: bool
) -> tuple[tuple[Stage, ...], ...]:
    """Fetch the operands of a kernel row at once, or of the whole kernel with `kernels`; tap by tap
    where these may not fit, have gaps, or leave the images of a tap unaligned.
    """
    if stride[1] > 1:
        return (Stage("w", "kernel_col"),), ()
    at_once = (_whole("kernel_row"),) if kernel[0] > 1 and kernels else ()
    tap_by_tap: tuple[tuple[Stage, ...], ...] = ((),) if kernel[1] > 3 or few_images else ()
    return _whole("kernel_col"), *at_once, *tap_by_tap


def _whole(loop: str) -> tuple[Stage, ...]:
    """Weights and images of all taps of a loop."""
    return Stage("w", loop), Stage("x", loop)


def _layouts(few_images: bool) -> tuple[tuple[tuple[Layout, ...], ...], ...]:
    """Pixels or channels contiguous, in images and results alike; weights either way."""
    taps = ("kernel_rows", "kernel_cols")
    orders = (PIXELS_INNER, CHANNELS_INNER, *((CHANNELS_OUTER,) if few_images else ()))
    return (
        tuple((Layout("x", order), Layout("y", order)) for order in orders),
        (
            (Layout("w", ("group", *taps, "in_channels", "out_channels")),),
            (Layout("w", ("group", *taps, "out_channels", "in_channels")),),
        ),
    )
