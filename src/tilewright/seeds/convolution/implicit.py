"""Convolution by implicit GEMM: the direct loops with a matrix product innermost (swATOP Fig. 4,
Alg. 2).

For each kernel tap, a block of output channels x pixels is the product of weights (output x input
channels) and images (input channels x pixels). The pixels come from several images, several
columns, or both; from several rows too where the batch is small.
"""

from __future__ import annotations

from functools import cache

from tilewright.ops import Conv2d
from tilewright.seeds import steps
from tilewright.seeds.convolution.tensors import (
    CHANNELS_INNER,
    CHANNELS_OUTER,
    KERNEL,
    PIXELS_INNER,
    Window,
    for_windows,
    images,
    in_blocks,
    pixel,
    results,
    under,
    weights,
)
from tilewright.seeds.nest import Nest, TensorSpec, nest
from tilewright.seeds.space import Alternative, Seed, Space, layout, seed, tile_factor

Pair = tuple[int, int]

TAPS = ("in_channel", "kernel_row", "kernel_col")
"""The reduction loops."""

_BLOCKS = (
    ("group", "out_channel", "out_row", "out_col", "image"),
    ("group", "out_row", "out_col", "image", "out_channel"),
)
"""The loops around the reduction."""

FEW_IMAGES = 32
"""Below this batch a core may hold less than a vector of images per pixel, and the pixels of one
row may be too few to amortise fetching the weights.
"""
_FEW_PIXEL_VALUES = 4096
"""Limit on images x input channels, with at least `FEW_IMAGES` images. Up to here the taps of a
whole kernel fit beside large enough tiles, and a product of a single kernel row spends a noticeable
share of its time outside arithmetic.
"""


@seed("conv2d", name="implicit")
def implicit_gemm(op: Conv2d) -> Seed:
    """Implicit GEMM for any kernel size, stride and dilation."""
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

    The product's n counts images; for blocked images it counts blocks and the `lane` within each.
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


def _pixels(few_images: bool) -> tuple[tuple[steps.Step, ...], ...]:
    """The axis whose pixels the core columns share; with few images, rows may join the product."""
    by_image, by_col = (steps.Spread("image", "columns"),), (steps.Spread("out_col", "columns"),)
    if not few_images:
        return by_image, by_col
    rows = steps.Split("out_row", tile_factor("out_row")), steps.Fuse("out_row", "n")
    return by_image, by_col, (*rows, *by_col), (*rows, steps.Spread("out_row", "columns"))


def _orders(
    kernel: Pair, stride: Pair, few_images: bool, few_channels: bool
) -> tuple[tuple[steps.Step, ...], ...]:
    """Loop orders, vector dimensions, and the loops outside which operands are fetched. Taps with
    no other work between their products form a chain (`ir.chains`).
    """
    found: list[tuple[steps.Step, ...]] = []
    for blocks in _BLOCKS:
        # With many images, pixels are inside: the weights of a whole kernel are fetched once.
        kernels = few_channels and (few_images or blocks == _BLOCKS[0])
        staging = [(TAPS, s) for s in _staging(kernel, stride, few_images, kernels)]
        if few_images and kernel[0] > 1:
            # Rows of pixels in one product are whole, so a kernel column can share them.
            staging.append((("in_channel", "kernel_col", "kernel_row"), _whole("kernel_row")))
        loops = ((steps.Reorder((*blocks, *taps)), stages) for taps, stages in staging)
        found += ((order, steps.Vectorize(v), *stages) for order, stages in loops for v in "mn")
    return tuple(found)


def _staging(
    kernel: Pair, stride: Pair, few_images: bool, kernels: bool
) -> tuple[tuple[steps.Stage, ...], ...]:
    """Fetch the operands of a kernel row at once, or of the whole kernel with `kernels`; tap by tap
    where these may not fit, have gaps, or misalign the images of a tap.
    """
    if stride[1] > 1:
        return (steps.Stage("w", "kernel_col"),), ()
    at_once = (_whole("kernel_row"),) if kernel[0] > 1 and kernels else ()
    tap_by_tap: tuple[tuple[steps.Stage, ...], ...] = ((),) if kernel[1] > 3 or few_images else ()
    return _whole("kernel_col"), *at_once, *tap_by_tap


def _whole(loop: str) -> tuple[steps.Stage, ...]:
    """Fetch weights and images of all taps of a loop at once."""
    return steps.Stage("w", loop), steps.Stage("x", loop)


def _layouts(few_images: bool) -> tuple[tuple[tuple[steps.Layout, ...], ...], ...]:
    """Pixels or channels contiguous, alike in images and results; weights in either order."""
    taps = ("kernel_rows", "kernel_cols")
    orders = (PIXELS_INNER, CHANNELS_INNER, *((CHANNELS_OUTER,) if few_images else ()))
    return (
        tuple((steps.Layout("x", order), steps.Layout("y", order)) for order in orders),
        (
            (steps.Layout("w", ("group", *taps, "in_channels", "out_channels")),),
            (steps.Layout("w", ("group", *taps, "out_channels", "in_channels")),),
        ),
    )


# Convolution by implicit GEMM on images stored in vectors of four, as in swDNN's image-size-aware
# plan (swDNN IV-A, Algorithm 1).
#
# A core's four images of one pixel are one vector, and the vectors of a run of columns are
# contiguous. The pixels of a product therefore fill whole vectors for any number of columns, and
# transfers have long blocks although the cores of a row share the images. Output columns may be
# padded to whole register blocks, images may not: other batch sizes have no such schedule.

LANES = 4
"""Images per vector, the fastest dimension of images and results."""

IMAGE_BLOCK = 32
"""Images per block: one vector for each of the 8 cores that share the images."""

IMAGES_ORDER = ("group", "channels", "rows", "image_blocks", "cols", "images")
"""Storage order of images and results."""
WEIGHTS_ORDER = ("group", "kernel_rows", "kernel_cols", "out_channels", "in_channels")


@seed("conv2d", name="implicit_fours", staged=True)
def implicit_by_fours(op: Conv2d) -> Seed | None:
    """Implicit GEMM on vectors of four images, for batches that are multiples of 32."""
    return images_in_fours("implicit_fours", op)


def images_in_fours(name: str, op: Conv2d) -> Seed | None:
    """The seed `name`, for batches that are multiples of 32; input columns are fetched tap by tap
    or for a whole kernel row.
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


# Convolution by implicit GEMM on whole input columns, as in swDNN's batch-size-aware plan (swDNN
# IV-A, Algorithm 2).
#
# A product takes the images of one output column. The loop over input columns is outside the one
# over kernel columns: a column is fetched once for all output columns of a block that need it.

BATCH_BLOCK = 128
"""Images per block: a whole register block of 16 for each of the 8 cores that share the images."""


@seed("conv2d", name="implicit_columns", staged=True)
def implicit_by_columns(op: Conv2d) -> Seed | None:
    """Implicit GEMM on whole input columns, for batches that are multiples of 128."""
    return images_by_columns("implicit_columns", op)


def images_by_columns(name: str, op: Conv2d) -> Seed | None:
    """The seed `name`, for batches that are multiples of 128.

    An input column serves several output columns only if neighbouring taps are as far apart as
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


# Convolution by implicit GEMM on input rows that stay for several taps, for few images.
#
# With few images, a product of one tap covers the pixels of several output rows. Fetching tap by
# tap, each core reads its part of the images once per tap. Here it keeps
#
# * for one kernel column, the rows that all kernel rows need: successive output rows form a matrix
#   at any of them, so one product covers them together;
# * for one kernel row, whole input rows with their border, which serve all kernel columns: products
#   cover one output row each, since the input of neighbouring rows is not contiguous.
#
# From one kernel column to the next the pixels of a row shift by one and are no longer aligned
# vectors. Vectors therefore run along output channels, or along pixels that the primitive packs
# from channels-last images while the results are not channels-last.

_OUTER_TAPS = ("group", "kernel_rows", "kernel_cols")
"""The slowest dimensions of the weights."""
_LAYOUTS_OF_ROWS = tuple(
    (steps.Layout("x", x), steps.Layout("y", y), steps.Layout("w", (*_OUTER_TAPS, *w)))
    for x, y, w in (
        (CHANNELS_INNER, CHANNELS_OUTER, ("out_channels", "in_channels")),
        (CHANNELS_OUTER, CHANNELS_INNER, ("in_channels", "out_channels")),
        (CHANNELS_INNER, CHANNELS_INNER, ("in_channels", "out_channels")),
        (CHANNELS_INNER, CHANNELS_INNER, ("out_channels", "in_channels")),
        (CHANNELS_OUTER, CHANNELS_OUTER, ("in_channels", "out_channels")),
        (CHANNELS_OUTER, CHANNELS_OUTER, ("out_channels", "in_channels")),
    )
)
"""Storage orders of images, results and weights, each the fastest for some layer."""
_OUTSIDE_TAPS = ("group", "out_channel", "out_row", "out_col", "image", "in_channel")
"""The loops outside the taps."""


def _has_rows_to_keep(op: Conv2d) -> bool:
    return op.batch < FEW_IMAGES and op.kernel != (1, 1) and op.stride[1] == 1


@for_windows("implicit_rows", _has_rows_to_keep, staged=True)
def implicit_by_rows(window: Window) -> Seed:
    """Implicit GEMM on input rows that stay, for few images and kernels of several taps."""
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
    return Seed("implicit_rows", (x, w, y), (space,), (_LAYOUTS_OF_ROWS,), ("x", "w"), "y")


def _for_a_kernel_column(vector: str, spread: str) -> Alternative:
    """Fetch images and weights at once for all kernel rows of a kernel column."""
    order = steps.Reorder((*_OUTSIDE_TAPS, "kernel_col", "kernel_row"))
    staged = steps.Stage("x", "kernel_row"), steps.Stage("w", "kernel_row")
    return steps.Spread(spread, "columns"), order, steps.Vectorize(vector), *staged


def _for_a_kernel_row(vector: str, *places: str) -> tuple[Alternative, ...]:
    """Fetch whole input rows, with the weights of a tap or of a kernel row. Input rows of all
    kernel rows are fetched together only with the weights of a single tap.
    """
    rows = (
        steps.Spread("out_row", "columns"),
        steps.Walk("out_row", "core_row"),
        steps.Pad("out_col"),
    )
    order = steps.Reorder((*_OUTSIDE_TAPS, "kernel_row", "kernel_col", "core_row"))
    every = *rows, order, steps.Vectorize(vector), steps.Stage("y", "in_channel")
    tap_by_tap = tuple((*every, steps.Stage("x", place)) for place in places)
    return *tap_by_tap, (*every, steps.Stage("x", "kernel_col"), steps.Stage("w", "kernel_col"))
