"""Convolution with few channels a group on operands in place, by vectors over the groups.

For machines whose cores address main memory through caches. The channels of a pixel lie side by
side, those of one number of all groups together; the windows of rows of results are multiplied and
added in one call, which keeps its sums in registers. Rows go outside groups, so that neighbouring
lines are wanted soon after each other; groups where the rows of all of them are too many bytes.
Depthwise layers have one channel a group.
"""

from __future__ import annotations

from functools import cache

from tilewright.ops import Conv2d
from tilewright.seeds.convolution.direct_vectors import MOST_PAIRS
from tilewright.seeds.convolution.tensors import (
    KERNEL,
    Window,
    behind,
    images,
    pixel,
    reach_of,
    results,
    weights,
)
from tilewright.seeds.nest import Nest, nest
from tilewright.seeds.space import Seed, Space, layout, seed
from tilewright.seeds.steps import IN_PLACE, Layout, Stage

_PIXELS = ("batch", "rows", "cols", "channels", "group")
_WEIGHTS = ("kernel_rows", "kernel_cols", "in_channels", "out_channels", "group")


@seed("conv2d", name="depthwise", addressed=True)
def depthwise(op: Conv2d) -> Seed | None:
    """For floats, several groups, and few channels of each."""
    pairs = (op.in_channels // op.groups) * (op.out_channels // op.groups)
    if op.groups == 1 or pairs > MOST_PAIRS or not op.numerics.is_float:
        return None
    return _depthwise((op.kernel, op.stride, op.dilation))


@cache
def _depthwise(window: Window) -> Seed:
    x, w, y = images(), weights(window[0]), results()
    sums = _window_sums(window)
    space = (
        Space(sums)
        .split("group", "out_row")
        .reorder(
            ("image", "out_row", "group", "out_channel"),
            ("image", "group", "out_row", "out_channel"),
        )
        .choose(tuple(Stage(t.name, IN_PLACE) for t in (y, x, w)))
        .limit(largest=1 << 31, most=32)
    )
    layouts = (((Layout("x", _PIXELS), Layout("y", _PIXELS)),), layout(w, _WEIGHTS))
    return Seed("depthwise", (x, w, y), (space,), layouts, ("x", "w"), "y")


def _window_sums(window: Window) -> Nest:
    """The results of rows, of one channel of all groups."""
    kernel, stride, dilation = window
    return nest(
        "depthwise",
        "window_sums",
        "image out_row out_channel out_col group in_channel kernel_row kernel_col in_row in_col",
        {
            "u": "out_row",
            "t": "out_col",
            "r": "in_row",
            "c": "in_col",
            "x": "kernel_row kernel_col",
            "k": "in_channel",
            "g": "group",
        },
        results().on(pixel()),
        images().on(behind(window, "in_row", "in_col")),
        weights(kernel).on(KERNEL),
        inner="kernel_row kernel_col in_row in_col",
        extents=reach_of(window),
        rows=kernel[0],
        cols=kernel[1],
        stride=stride[1],
        row_stride=stride[0],
        row_step=dilation[0],
        col_step=dilation[1],
    )
