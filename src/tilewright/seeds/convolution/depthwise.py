"""Direct convolution for layers with few products per result, such as depthwise ones: vectors run
along pixels in the scratchpad, or along groups in place.

A matrix product rounds few channels up to its register block. Here each tap is accumulated into a
tile of results on its own, at one multiply-add per vector.
"""

from __future__ import annotations

from functools import cache

from tilewright.ops import Conv2d
from tilewright.seeds.convolution import tensors as conv
from tilewright.seeds.nest import Nest, TensorSpec, nest
from tilewright.seeds.space import Seed, Space, layout, seed
from tilewright.seeds.steps import IN_PLACE, Layout, Spread, Stage

MOST_PAIRS = 64
"""Pairs of input and output channels per group; with more, a matrix product takes fewer cycles."""

_ORDERS = (conv.PIXELS_INNER, conv.CHANNELS_OUTER)
_SPREAD = (
    ("group",),
    ("out_row",),
    ("group", "out_row"),
    ("out_channel", "out_row"),
    ("out_row", "out_col"),
    ("out_col", "image"),
)
"""Axes to spread together. Each won on a depthwise layer of MobileNet v2, or on a first layer with
few channels.
"""
_CUT = ("group", "out_channel", "out_row", "out_col", "image")


def _has_few_pairs(op: Conv2d) -> bool:
    return (op.in_channels // op.groups) * (op.out_channels // op.groups) <= MOST_PAIRS


@conv.for_windows("direct_vectors", _has_few_pairs, staged=True)
def direct_vectors(window: conv.Window) -> Seed:
    """Direct convolution by vectors of pixels, for few channels per group."""
    x, w, y = conv.images(), conv.weights(window[0]), conv.results()
    space = (
        Space(_by_tap(window))
        .split(*_CUT)
        .choose(*(_spread(*axes) for axes in _SPREAD))
        .stage(x, "in_channel", "kernel_row")
        .stage(w, "in_channel")
        .prefetch(y, w, x)
        .limit(largest=1 << 12, most=3)
    )
    layouts = tuple((Layout("x", order), Layout("y", order)) for order in _ORDERS)
    return Seed("direct_vectors", (x, w, y), (space,), (layouts,), ("x", "w"), "y")


def _spread(*axes: str) -> tuple[Spread, ...]:
    """One axis over all cores, or two over rows and columns."""
    over = ("cores",) if len(axes) == 1 else ("rows", "columns")
    return tuple(Spread(name, line) for name, line in zip(axes, over, strict=True))


def _by_tap(window: conv.Window) -> Nest:
    """One kernel tap and one input channel, multiplied with a tile of pixels."""
    return nest(
        "direct_vectors",
        "multiply_accumulate",
        "group out_channel out_row out_col image in_channel kernel_row kernel_col",
        {"g": "group", "m": "out_channel", "p": "out_row", "q": "out_col", "s": "image"},
        conv.results().on(conv.pixel()),
        conv.images().on(conv.under(window)),
        conv.weights(window[0]).on(conv.KERNEL),
    )


# Convolution with few channels per group on operands in place, by vectors along the groups.
#
# For machines whose cores address main memory through caches. The channels of a pixel are
# contiguous, channel `c` of all groups together. One call computes the windows of some rows and
# keeps their sums in registers. Rows are outside groups, so that neighbouring lines are reused
# soon; groups are outside where the rows of all groups take too many bytes. Depthwise layers have
# one channel per group.

_PIXELS = ("batch", "rows", "cols", "channels", "group")
_WEIGHTS = ("kernel_rows", "kernel_cols", "in_channels", "out_channels", "group")


def _has_groups_of_floats(op: Conv2d) -> bool:
    return op.groups > 1 and _has_few_pairs(op) and op.numerics.is_float


@seed("conv2d", name="depthwise", addressed=True)
def depthwise(op: Conv2d) -> Seed | None:
    """Direct convolution by vectors of groups: floats, several groups, few channels in each."""
    window = op.kernel, op.stride, op.dilation
    return _depthwise(window, op.padding) if _has_groups_of_floats(op) else None


@cache
def _depthwise(window: conv.Window, padding: tuple[int, int, int, int]) -> Seed:
    x, w, y = conv.images(padding), conv.weights(window[0]), conv.results()
    sums = _window_sums(window, x)
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


def _window_sums(window: conv.Window, x: TensorSpec) -> Nest:
    """The windows of some rows of results, for one output channel of all groups."""
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
        conv.results().on(conv.pixel()),
        x.on(conv.behind(window, "in_row", "in_col")),
        conv.weights(kernel).on(conv.KERNEL),
        inner="kernel_row kernel_col in_row in_col",
        extents=conv.reach_of(window),
        rows=kernel[0],
        cols=kernel[1],
        stride=stride[1],
        row_stride=stride[0],
        row_step=dilation[0],
        col_step=dilation[1],
    )
