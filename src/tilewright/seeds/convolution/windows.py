"""Convolution by explicit GEMM in the scratchpad (im2col, swATOP 3): the column matrix of a block
of pixels is made there and used at once, so that main memory sees images and results alone.

For few input channels: a product of one tap has a sum as short as the channels of a core, one of
all taps a sum that is longer by the number of taps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from tilewright.ir.primitives import make_primitive
from tilewright.ops import Conv2d
from tilewright.seeds.convolution.tensors import (
    BATCH,
    GROUPS,
    IN_CHANNELS,
    OUT_CHANNELS,
    OUT_COLS,
    OUT_ROWS,
    PIXELS_INNER,
    Window,
    images,
    results,
    weights,
)
from tilewright.seeds.nest import Axis, Nest, TensorSpec, Transform, Use, axis, nest
from tilewright.seeds.space import Seed, Space, layout, seed
from tilewright.seeds.steps import Spread

Pair = tuple[Axis, Axis]

MOST_CHANNELS = 32
"""Input channels; with more, a core has enough of them for a product of one tap."""

_WINDOWS_ORDER = ("group", "rows", "channels", "kernel_rows", "kernel_cols", "cols", "batch")
"""Channels outside taps, in the kernels too: so cores that share sums count their terms alike."""


@seed("conv2d", name="explicit_fused", staged=True)
def explicit_fused(op: Conv2d) -> Seed | None:
    """For few input channels and kernels of several taps."""
    if op.in_channels > MOST_CHANNELS * op.groups or op.kernel == (1, 1):
        return None
    return _explicit_fused((op.kernel, op.stride, op.dilation))


@cache
def _explicit_fused(window: Window) -> Seed:
    block = _block(window)
    out_channel, in_channel, out_col, image = (
        block.axis(name) for name in ("out_channel", "in_channel", "out_col", "image")
    )
    space = (
        Space(block)
        .split(out_col, image)
        .whole(out_channel, in_channel)
        .spread(out_channel, "rows")
        .spread(in_channel, "both")
        .choose((Spread("image", "columns"),), (Spread("out_col", "columns"),))
        .vectorize("n")
        .prefetch(block.output.tensor, images())
        .limit(largest=512, most=6)
    )
    x, w, y = images(), weights(window[0]), results()
    taps = ("kernel_rows", "kernel_cols")
    layouts = (
        layout(x, PIXELS_INNER),
        layout(y, PIXELS_INNER),
        layout(block.kept[0], _WINDOWS_ORDER),
        layout(
            w,
            ("group", "in_channels", *taps, "out_channels"),
            ("group", "out_channels", "in_channels", *taps),
        ),
    )
    return Seed("explicit_fused", (x, w, y), (space,), layouts, ("x", "w"), "y")


def _block(window: Window) -> Nest:
    """The product of a block of pixels of one row, of all taps and input channels."""
    kernel = window[0]
    w, y = weights(kernel), results()
    group, image = axis("group", GROUPS), axis("image", BATCH)
    out_row, out_col = axis("out_row", OUT_ROWS), axis("out_col", OUT_COLS)
    out_channel, in_channel = axis("out_channel", OUT_CHANNELS), axis("in_channel", IN_CHANNELS)
    pixels = {"group": group, "rows": out_row, "cols": out_col, "batch": image}
    taps = _pair("kernel", kernel)
    dims = {"channels": in_channel, "kernel_rows": taps[0], "kernel_cols": taps[1], **pixels}
    columns = TensorSpec("columns", "scratch", tuple((d, a.extent) for d, a in dims.items()), "", 0)
    gathered, reach = _windows(window, columns.at(**dims), dims)
    return nest(
        "block",
        "gemm",
        (*pixels.values(), out_channel, in_channel, *taps, *reach),
        {"m": out_channel, "n": (out_col, image), "k": (in_channel, *taps)},
        y.at(channels=out_channel, **pixels),
        w.at(
            group=group,
            out_channels=out_channel,
            in_channels=in_channel,
            kernel_rows=taps[0],
            kernel_cols=taps[1],
        ),
        columns.at(**dims),
        before=gathered,
    )


def _windows(window: Window, made: Use, dims: Mapping[str, Axis]) -> tuple[Transform, Pair]:
    """The transform that gathers a block's windows, and axes over rows and columns of a window."""
    kernel, stride, dilation = window
    reach = _pair("in", tuple((n - 1) * d + 1 for n, d in zip(kernel, dilation, strict=True)))
    channels, *taps, group, out_row, out_col, image = dims.values()
    letters = zip((*taps, out_col, *reach, channels, image), "xxtrcps", strict=True)
    pixels = images().at(
        group=group,
        channels=channels,
        rows=out_row.var * stride[0] + reach[0].var,
        cols=out_col.var * stride[1] + reach[1].var,
        batch=image,
    )
    sizes = {"rows": kernel[0], "cols": kernel[1], "stride": stride[1] if kernel[1] > 1 else 1}
    steps = {"row_step": dilation[0], "col_step": dilation[1]}
    roles = tuple((a.name, letter) for a, letter in letters)
    return Transform(make_primitive("windows", {**sizes, **steps}), roles, made, pixels), reach


def _pair(name: str, extents: Sequence[int]) -> Pair:
    """Rows and columns that a primitive takes whole."""
    rows, cols = extents
    return axis(f"{name}_row", rows, inner=True), axis(f"{name}_col", cols, inner=True)
