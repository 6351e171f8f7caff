"""Direct convolution by vectors of pixels, in the scratchpad: for layers that add few products into
each result, as depthwise ones do.

A matrix product rounds few channels up to what its registers hold; here each tap of a kernel is
added into a tile of results by itself, at one multiply-add for each vector.
"""

from __future__ import annotations

from functools import cache

from tilewright.ops import Conv2d
from tilewright.seeds.convolution.tensors import (
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
from tilewright.seeds.nest import Nest, nest
from tilewright.seeds.space import Seed, Space, seed
from tilewright.seeds.steps import Layout, Spread

MOST_PAIRS = 64
"""Pairs of input and output channels per group; with more, a matrix product takes fewer cycles."""

_ORDERS = (PIXELS_INNER, CHANNELS_OUTER)
_SPREAD = (
    ("group",),
    ("out_row",),
    ("group", "out_row"),
    ("out_channel", "out_row"),
    ("out_row", "out_col"),
    ("out_col", "image"),
)
"""Axes spread together. Each won on a depthwise layer of MobileNet v2, or on a first layer of few
channels.
"""
_CUT = ("group", "out_channel", "out_row", "out_col", "image")


@seed("conv2d", name="direct_vectors", staged=True)
def direct_vectors(op: Conv2d) -> Seed | None:
    """For few channels of a group."""
    pairs = (op.in_channels // op.groups) * (op.out_channels // op.groups)
    return _direct_vectors((op.kernel, op.stride, op.dilation)) if pairs <= MOST_PAIRS else None


@cache
def _direct_vectors(window: Window) -> Seed:
    x, w, y = images(), weights(window[0]), results()
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


def _by_tap(window: Window) -> Nest:
    """One product of a tap and an input channel with the pixels of a tile."""
    return nest(
        "direct_vectors",
        "multiply_accumulate",
        "group out_channel out_row out_col image in_channel kernel_row kernel_col",
        {"g": "group", "m": "out_channel", "p": "out_row", "q": "out_col", "s": "image"},
        results().on(pixel()),
        images().on(under(window)),
        weights(window[0]).on(KERNEL),
    )
