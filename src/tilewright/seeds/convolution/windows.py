"""Convolution by explicit GEMM in the scratchpad (im2col, swATOP 3): the column matrix of a block
of pixels is built and consumed there, so main memory holds only images and results.

For few input channels: a product of one tap sums over one core's channels only, a product of all
taps over as many times more terms as there are taps.
"""

from __future__ import annotations

from tilewright.ir.primitives import make_primitive
from tilewright.ops import Conv2d
from tilewright.seeds.convolution import tensors as conv
from tilewright.seeds.nest import Nest, Transform, Use, nest, tensor
from tilewright.seeds.space import Seed, Space, layout
from tilewright.seeds.steps import Spread

MOST_CHANNELS = 32
"""Input channels; with more, each core has enough of them for a product per tap."""

_WINDOWS_ORDER = ("group", "rows", "channels", "kernel_rows", "kernel_cols", "cols", "batch")
"""Channels outside taps, as in the kernels: cores that share sums number terms alike."""


def _has_short_sums(op: Conv2d) -> bool:
    return op.in_channels <= MOST_CHANNELS * op.groups and op.kernel != (1, 1)


@conv.for_windows("explicit_fused", _has_short_sums, staged=True)
def explicit_fused(window: conv.Window) -> Seed:
    """Explicit GEMM in the scratchpad, for few input channels and kernels of several taps."""
    block = _block(window)
    space = (
        Space(block)
        .split("out_col", "image")
        .whole("out_channel", "in_channel")
        .spread("out_channel", "rows")
        .spread("in_channel", "both")
        .choose((Spread("image", "columns"),), (Spread("out_col", "columns"),))
        .vectorize("n")
        .prefetch(block.output.tensor, conv.images())
        .limit(largest=512, most=6)
    )
    x, w, y = conv.images(), conv.weights(window[0]), conv.results()
    taps = ("kernel_rows", "kernel_cols")
    layouts = (
        layout(x, conv.PIXELS_INNER),
        layout(y, conv.PIXELS_INNER),
        layout(block.kept[0], _WINDOWS_ORDER),
        layout(
            w,
            ("group", "in_channels", *taps, "out_channels"),
            ("group", "out_channels", "in_channels", *taps),
        ),
    )
    return Seed("explicit_fused", (x, w, y), (space,), layouts, ("x", "w"), "y")


def _block(window: conv.Window) -> Nest:
    """The product of a block of pixels of one row with all taps and input channels."""
    kernel = window[0]
    dims = (
        f"channels=in_channels, kernel_rows={kernel[0]}, kernel_cols={kernel[1]}, group=groups, "
        "rows=out_rows, cols=out_cols, batch=batch"
    )
    columns = tensor("columns", "scratch", dims, operand=0)
    made = columns.on("in_channel, kernel_row, kernel_col, group, out_row, out_col, image")
    return nest(
        "block",
        "gemm",
        "group out_row out_col image out_channel in_channel kernel_row kernel_col in_row in_col",
        {"m": "out_channel", "n": "out_col image", "k": "in_channel kernel_row kernel_col"},
        conv.results().on(conv.pixel()),
        conv.weights(kernel).on(conv.KERNEL),
        made,
        inner="kernel_row kernel_col in_row in_col",
        extents=conv.reach_of(window),
        before=_windows(window, made),
    )


def _windows(window: conv.Window, made: Use) -> Transform:
    """The transform that gathers the windows of a block of pixels."""
    kernel, stride, dilation = window
    names = ["kernel_row", "kernel_col", "out_col", "in_row", "in_col", "in_channel", "image"]
    sizes = {"rows": kernel[0], "cols": kernel[1], "stride": stride[1] if kernel[1] > 1 else 1}
    steps = {"row_step": dilation[0], "col_step": dilation[1]}
    gathering = make_primitive("windows", {**sizes, **steps})
    roles = tuple(zip(names, "xxtrcps", strict=True))
    return Transform(
        gathering, roles, made, conv.images().on(conv.behind(window, "in_row", "in_col"))
    )
