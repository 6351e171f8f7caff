"""Convolution by explicit GEMM in the scratchpad (im2col, swATOP 3): the column matrix of a block
of pixels is made there and used at once, so that main memory sees images and results alone.

For few input channels: a product of one tap has a sum as short as the channels of a core, one of
all taps a sum that is longer by the number of taps.
"""

from __future__ import annotations

from functools import cache

from tilewright.ir.primitives import make_primitive
from tilewright.ops import Conv2d
from tilewright.seeds.convolution.tensors import (
    PIXELS_INNER,
    ConvolutionLoops,
    Window,
    convolution_loops,
    images,
    reach_of,
    results,
    weights,
)
from tilewright.seeds.nest import Axis, Nest, TensorSpec, Transform, Use, nest
from tilewright.seeds.space import Seed, Space, layout, seed
from tilewright.seeds.steps import Spread

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
    reach = reach_of(window)
    c = convolution_loops(window, *reach, inner="kernel_row kernel_col")
    order = "group out_row out_col image out_channel in_channel kernel_row kernel_col in_row in_col"
    names = ("channels", "kernel_rows", "kernel_cols", "group", "rows", "cols", "batch")
    axes = c.named("in_channel kernel_row kernel_col group out_row out_col image")
    named = dict(zip(names, axes, strict=True))
    dims = tuple((name, a.extent) for name, a in named.items())
    columns = TensorSpec("columns", "scratch", dims, "", 0)
    made, taps = columns.at(**named), "kernel_row kernel_col"
    return nest(
        "block",
        "gemm",
        c.named(order),
        c.roles(m="out_channel", n="out_col image", k=f"in_channel {taps}"),
        c.pixel(results()),
        c.kernels(weights(window[0])),
        made,
        before=_windows(c, made, reach),
    )


def _windows(c: ConvolutionLoops, made: Use, reach: tuple[Axis, ...]) -> Transform:
    """The transform that gathers a block's windows of so many rows and columns."""
    kernel, stride, dilation = c.window
    names = ["kernel_row", "kernel_col", "out_col", "in_row", "in_col", "in_channel", "image"]
    sizes = {"rows": kernel[0], "cols": kernel[1], "stride": stride[1] if kernel[1] > 1 else 1}
    steps = {"row_step": dilation[0], "col_step": dilation[1]}
    gathering = make_primitive("windows", {**sizes, **steps})
    roles = tuple(zip(names, "xxtrcps", strict=True))
    return Transform(gathering, roles, made, c.under(images(), *reach))
