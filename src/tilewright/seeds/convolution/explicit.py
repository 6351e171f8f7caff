"""Convolution by explicit GEMM: expand the images to a column matrix, then one matrix product
(swATOP 3, im2col).

The column matrix has a row per (kernel tap, in channel) and a column per output pixel; both nests
see it, once by its seven indices and once as a matrix.
"""

from __future__ import annotations

from functools import cache

from tilewright.ops import Conv2d
from tilewright.seeds.convolution.tensors import (
    BATCH,
    CHANNELS_INNER,
    GROUPS,
    IN_CHANNELS,
    OUT_CHANNELS,
    OUT_COLS,
    OUT_ROWS,
    PIXELS_INNER,
    Window,
    convolution_loops,
    images,
    results,
    weights,
)
from tilewright.seeds.gemm import gemm_space
from tilewright.seeds.nest import TensorSpec, axis, nest, tensor
from tilewright.seeds.space import Seed, Space, seed
from tilewright.seeds.steps import Layout, Spread


@seed("conv2d", name="explicit")
def explicit_gemm(op: Conv2d) -> Seed:
    """The seed for one kernel size, stride and dilation."""
    return _explicit_gemm((op.kernel, op.stride, op.dilation))


@cache
def _explicit_gemm(window: Window) -> Seed:
    kernel = window[0]
    x, w, y = images(), weights(kernel), results()
    depth = IN_CHANNELS * (kernel[0] * kernel[1])
    pixels = OUT_ROWS * OUT_COLS * BATCH
    columns = tensor(
        "columns",
        "scratch",
        operand=0,
        group=GROUPS,
        kernel_rows=kernel[0],
        kernel_cols=kernel[1],
        channels=IN_CHANNELS,
        rows=OUT_ROWS,
        cols=OUT_COLS,
        batch=BATCH,
    )
    column_matrix = tensor(
        "column_matrix",
        "scratch",
        storage="columns",
        operand=0,
        group=GROUPS,
        depth=depth,
        pixels=pixels,
    )
    weight_matrix = tensor(
        "weight_matrix",
        "scratch",
        storage="w",
        operand=1,
        group=GROUPS,
        out_channels=OUT_CHANNELS,
        depth=depth,
    )
    result_matrix = tensor(
        "result_matrix", "scratch", storage="y", group=GROUPS, channels=OUT_CHANNELS, pixels=pixels
    )
    spaces = (
        _expansion(x, columns, window),
        _product(weight_matrix, column_matrix, result_matrix),
    )
    tensors = (x, w, y, columns, column_matrix, weight_matrix, result_matrix)
    return Seed("explicit", tensors, spaces, _layouts(), ("x", "w"), "y")


def _expansion(x: TensorSpec, columns: TensorSpec, window: Window) -> Space:
    channel = axis("channel", IN_CHANNELS)
    c = convolution_loops(window, channel)
    group, out_row, out_col, image, kernel_row, kernel_col = c.named(
        "group out_row out_col image kernel_row kernel_col"
    )
    taps = {"kernel_rows": kernel_row, "kernel_cols": kernel_col}
    expansion = nest(
        "expand",
        "copy",
        (group, out_row, out_col, image, channel, kernel_row, kernel_col),
        {"p": channel, "q": out_col, "r": image},
        columns.at(group=group, channels=channel, rows=out_row, cols=out_col, batch=image, **taps),
        c.under(x, channels=channel),
    )
    return (
        Space(expansion)
        .split(channel, out_col, image)
        .spread(channel, "rows")
        .choose((Spread("image", "columns"),), (Spread("out_col", "columns"),))
        .reorder((group, out_row, channel, out_col, image, kernel_row, kernel_col))
        .stage(x, None, kernel_col)
        .prefetch(columns, x)
        .limit(largest=512, most=3)
    )


def _product(w: TensorSpec, columns: TensorSpec, y: TensorSpec) -> Space:
    group, out_channel = axis("group", GROUPS), axis("out_channel", OUT_CHANNELS)
    depth, pixel = (
        axis("depth", dict(columns.dims)["depth"]),
        axis("pixel", dict(columns.dims)["pixels"]),
    )
    product = nest(
        "product",
        "gemm",
        (group, out_channel, pixel, depth),
        {"m": out_channel, "n": pixel, "k": depth},
        y.at(group=group, channels=out_channel, pixels=pixel),
        w.at(group=group, out_channels=out_channel, depth=depth),
        columns.at(group=group, depth=depth, pixels=pixel),
    )
    return gemm_space(product, "out_channel", "pixel", "depth", inner_only=True, most=4)


def _layouts() -> tuple[tuple[tuple[Layout, ...], ...], ...]:
    """Pixels or channels contiguous in images, columns and results together; weights either way."""
    taps = ("kernel_rows", "kernel_cols")
    pixels = ("rows", "cols", "batch")
    pixels_inner = (
        Layout("x", PIXELS_INNER),
        Layout("y", ("group", "channels", *pixels)),
        Layout("columns", ("group", *taps, "channels", *pixels)),
        Layout("column_matrix", ("group", "depth", "pixels")),
        Layout("result_matrix", ("group", "channels", "pixels")),
    )
    channels_inner = (
        Layout("x", CHANNELS_INNER),
        Layout("y", CHANNELS_INNER),
        Layout("columns", ("group", *pixels, *taps, "channels")),
        Layout("column_matrix", ("group", "pixels", "depth")),
        Layout("result_matrix", ("group", "pixels", "channels")),
    )
    depth_inner = (
        Layout("w", ("group", "out_channels", *taps, "in_channels")),
        Layout("weight_matrix", ("group", "out_channels", "depth")),
    )
    depth_outer = (
        Layout("w", ("group", *taps, "in_channels", "out_channels")),
        Layout("weight_matrix", ("group", "depth", "out_channels")),
    )
    return (pixels_inner, channels_inner), (depth_inner, depth_outer)
