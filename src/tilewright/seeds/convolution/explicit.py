"""Convolution by explicit GEMM: expand the images to a column matrix, then run one matrix product
(swATOP 3, im2col).

The column matrix has one row per (kernel tap, input channel) and one column per output pixel. The
expansion indexes it by its seven dimensions, the product as a matrix.
"""

from __future__ import annotations

from math import prod

from tilewright.seeds.convolution import tensors as conv
from tilewright.seeds.gemm import inner_space
from tilewright.seeds.nest import TensorSpec, nest, tensor
from tilewright.seeds.space import Seed, Space
from tilewright.seeds.steps import Layout, Spread


@conv.for_windows("explicit")
def explicit_gemm(window: conv.Window) -> Seed:
    """Explicit GEMM for one kernel size, stride and dilation."""
    x, w, y, taps = conv.images(), conv.weights(window[0]), conv.results(), prod(window[0])
    depth, pixels = f"depth=in_channels * {taps}", "pixels=out_rows * out_cols * batch"
    columns = tensor(
        "columns",
        "scratch",
        f"group=groups, kernel_rows={window[0][0]}, kernel_cols={window[0][1]}, "
        "channels=in_channels, rows=out_rows, cols=out_cols, batch=batch",
        operand=0,
    )
    matrices = (("column", "columns", 0, f"{depth}, {pixels}"),
                ("weight", "w", 1, f"out_channels=out_channels, {depth}"),
                ("result", "y", None, f"channels=out_channels, {pixels}"))  # fmt: skip
    column_matrix, weight_matrix, result_matrix = (
        tensor(f"{of}_matrix", "scratch", f"group=groups, {dims}", storage=name, operand=operand)
        for of, name, operand, dims in matrices
    )
    axes = ("out_channel", "pixel", "depth")
    product = inner_space("product", result_matrix, weight_matrix, column_matrix, "group", axes)
    spaces = _expansion(x, columns, window), product
    tensors = (x, w, y, columns, column_matrix, weight_matrix, result_matrix)
    return Seed("explicit", tensors, spaces, _layouts(), ("x", "w"), "y")


def _expansion(x: TensorSpec, columns: TensorSpec, window: conv.Window) -> Space:
    expansion = nest(
        "expand",
        "copy",
        "group out_row out_col image channel kernel_row kernel_col",
        {"p": "channel", "q": "out_col", "r": "image"},
        columns.on("group, kernel_row, kernel_col, channel, out_row, out_col, image"),
        x.on(conv.under(window).replace("in_channel", "channel")),
    )
    return (
        Space(expansion)
        .split("channel", "out_col", "image")
        .spread("channel", "rows")
        .choose((Spread("image", "columns"),), (Spread("out_col", "columns"),))
        .reorder(("group", "out_row", "channel", "out_col", "image", "kernel_row", "kernel_col"))
        .stage(x, None, "kernel_col")
        .prefetch(columns, x)
        .limit(largest=512, most=3)
    )


def _layouts() -> tuple[tuple[tuple[Layout, ...], ...], ...]:
    """Pixels or channels contiguous, alike in images, columns and results; weights either way."""
    taps = ("kernel_rows", "kernel_cols")
    pixels = ("rows", "cols", "batch")
    pixels_inner = (
        Layout("x", conv.PIXELS_INNER),
        Layout("y", ("group", "channels", *pixels)),
        Layout("columns", ("group", *taps, "channels", *pixels)),
        Layout("column_matrix", ("group", "depth", "pixels")),
        Layout("result_matrix", ("group", "channels", "pixels")),
    )
    channels_inner = (
        Layout("x", conv.CHANNELS_INNER),
        Layout("y", conv.CHANNELS_INNER),
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
