"""Products over all their terms at once, for machines whose operations take any extent.

A result is then rounded once, and no partial sum is stored between products. For a convolution, one
product covers the whole window of a pixel: its terms are one run of elements where a tile holds,
column by column, the image columns under one column of windows. Neighbouring windows of that column
overlap in the same tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from tilewright.ir.primitives import make_primitive
from tilewright.ops import Conv2d, Gemm
from tilewright.seeds.convolution.direct import CHANNELS_LAST, is_product, pixel_product
from tilewright.seeds.convolution.tensors import (
    KERNEL,
    Window,
    for_windows,
    images,
    pixel,
    results,
    under,
    weights,
)
from tilewright.seeds.gemm import gemm_seed, product_nest
from tilewright.seeds.nest import Nest, TensorSpec, Transform, nest, tensor
from tilewright.seeds.space import INTERFACES, Alternative, Seed, Space, layout, seed
from tilewright.seeds.steps import IN_PARTS, Reorder, Stage

_BY_COLUMNS = ("group", "batch", "cols", "rows", "channels")
_WEIGHTS = ("group", "out_channels", "kernel_rows", "kernel_cols", "in_channels")
_ORDERS = (
    ("out_col", "out_row", "out_channel"),
    ("out_row", "out_col", "out_channel"),
    ("out_channel", "out_row", "out_col"),
)
"""Weights of all channels per part of a column of windows, or all parts per channel's weights."""
_TURNED = {
    "out_row": "out_col",
    "out_col": "out_row",
    "kernel_rows": "kernel_cols",
    "kernel_cols": "kernel_rows",
}
_STRIPS = "group=groups, batch=batch, strips=out_cols, rows=in_rows, cols={}, channels=in_channels"
"""Dimensions of images stored by columns of windows, `cols` image columns each."""
_PIXEL, _COLUMN = "pixel", "column"
"""The loops over the windows of a part, and over the columns of one."""
_LARGEST, _MOST = 1 << 30, 16
"""Limits on tiles, loose on purpose: memories bound them."""


@seed("gemm", name="whole_depth", whole=True)
def whole_depth(op: Gemm) -> Seed | None:
    """C = A B over the whole depth, tiled in rows and columns."""
    if (op.alpha, op.beta) != (1.0, 0.0):
        return None
    return _whole_depth(op.transpose_a, op.transpose_b)


@cache
def _whole_depth(transpose_a: bool, transpose_b: bool) -> Seed:
    orders = ("row", "col"), ("col", "row")
    choices = ((Reorder(o), *stages) for o in orders for stages in ((), (Stage("c", o[1]),)))
    plain = gemm_seed("gemm", "input", transpose_a, transpose_b, 1.0, 0.0)
    space = _whole(plain.spaces[0].nest, "depth", choices).vectorize("m", "n")
    space = space.limit(largest=_LARGEST, most=5 * _MOST, between=_MOST)
    return replace(plain, name="whole_depth", spaces=(space,))


def _whole(product: Nest, whole: str, choices: Iterable[Alternative], most: int = _MOST) -> Space:
    """The space of a matrix product that takes one dimension whole and tiles the others."""
    row, col, depth = (
        next(name for name, own in product.roles if own == letter) for letter in "mnk"
    )
    return (
        Space(product)
        .split(*(name for name in (row, col, depth) if name != whole))
        .whole(whole)
        .spread(row, "rows")
        .spread(col, "columns")
        .spread(depth, "both")
        .choose(*choices)
        .prefetch(*(u.tensor for u in product.uses))
        .limit(largest=_LARGEST, most=most)
    )


@seed("gemm", name="whole_rows", whole=True)
def whole_rows(op: Gemm) -> Seed | None:
    """A product over all columns and some terms at a time, where B lies row by row so that each
    part is one run. Each product is rounded, and the results are added.
    """
    if op.transpose_a or op.transpose_b or op.k == 1 or (op.alpha, op.beta) != (1.0, 0.0):
        return None
    return _whole_rows()


@cache
def _whole_rows() -> Seed:
    plain = gemm_seed("gemm", "input", False, False, 1.0, 0.0)
    space = _whole(plain.spaces[0].nest, "col", [(Reorder(("row", "depth")),)]).vectorize("n")
    return replace(plain, name="whole_rows", spaces=(space,))


@seed("gemm", name="one_term", whole=True)
def one_term(op: Gemm) -> Seed | None:
    """Products of depth one: every element of a column times every element of a row."""
    if op.k != 1 or (op.alpha, op.beta) != (1.0, 0.0):
        return None
    return _one_term()


@cache
def _one_term() -> Seed:
    a = tensor("a", "input", "rows=m, depth=1", operand=0)
    b = tensor("b", "input", "depth=1, cols=n", operand=1)
    c = tensor("c", "output", "rows=m, cols=n")
    orders = (Reorder(("row", "col")),), (Reorder(("col", "row")),)
    space = _whole(product_nest("one_term", c, a, b), "depth", orders, _MOST + 4).vectorize("n")
    space = replace(space, doubled=("a", "b", "c"))  # operands first
    return Seed("one_term", (a, b, c), (space,), (), ("a", "b"), "c")


@for_windows("whole_windows", lambda op: op.dilation == (1, 1), whole=True)
def whole_windows(window: Window) -> Seed:
    """Windows whose taps are adjacent, one product each."""
    x = images()
    one_column = window[0][1] == 1
    orders = layout(x, _BY_COLUMNS if one_column else CHANNELS_LAST)
    return Seed("whole_windows", *_windows(window, x), (orders, *_layouts(window)), ("x", "w"), "y")


def _turns(op: Conv2d) -> bool:
    return op.dilation == (1, 1) and (is_product(op) or 1 not in op.kernel)


@for_windows("turned_windows", _turns, whole=True)
def turned_windows(window: Window) -> Seed:
    """`whole_windows` along rows of an image stored by columns. Each of the two writes in runs
    where the other reads in runs.
    """
    x = images()
    weights_turned = tuple(_TURNED.get(d, d) for d in _WEIGHTS)
    layouts = (
        layout(x, CHANNELS_LAST if window[0] == (1, 1) else _BY_COLUMNS),
        layout(results(), CHANNELS_LAST, _BY_COLUMNS),
        layout(weights(window[0]), weights_turned),
    )
    tensors, spaces = _windows(window, x, turned=True)
    return Seed("turned_windows", tensors, spaces, layouts, ("x", "w"), "y")


@seed("conv2d", name="whole_pixels", whole=True)
def whole_pixels(op: Conv2d) -> Seed | None:
    """A 1x1 kernel as one matrix product over the pixels of all images. Where images stay, the next
    weights may arrive in parts; for one group only, since everything prefetched is then fetched in
    parts.
    """
    return _whole_pixels(one_group=op.groups == 1) if is_product(op) else None


@cache
def _whole_pixels(*, one_group: bool) -> Seed:
    product, tensors = pixel_product()
    x, w, y, *_ = tensors
    choices = [
        (Reorder(("group", outer, inner)), *xs, *ys)
        for outer, inner in (("out_channel", "pixel"), ("pixel", "out_channel"))
        for xs in ((), (Stage("x_pixels", inner),), (Stage("x_pixels", outer),))
        for ys in ((), (Stage("y_pixels", inner),))
    ]
    if one_group:
        stages = Stage("x_pixels", "out_channel"), Stage("w", IN_PARTS)
        choices.append((Reorder(("group", "out_channel", "pixel")), *stages))
    space = _whole(product, "in_channel", choices, 2 * _MOST).vectorize("m")
    layouts = (layout(x, CHANNELS_LAST), layout(y, CHANNELS_LAST), layout(w, _WEIGHTS))
    return Seed("whole_pixels", tensors, (space,), layouts, ("x", "w"), "y")


def _has_wide_windows(op: Conv2d) -> bool:
    return op.dilation == (1, 1) and op.kernel[1] > 1


@for_windows("loading_order", _has_wide_windows, whole=True)
def loading_order(window: Window) -> Seed:
    """Images as the host arranges them for loading: each column of windows separately, so that a
    part of it is one run of elements in main memory too.
    """
    x = tensor("x", "input", _STRIPS.format(window[0][1]), operand=0)
    return Seed(
        "loading_order", *_windows(window, x), _layouts(window), ("x", "w"), "y", arrange=_strips
    )


def _has_small_results(op: Conv2d) -> bool:
    smaller = op.out_height * op.out_width <= op.kernel[0] * op.kernel[1]
    return op.kernel != (1, 1) and smaller


@for_windows("whole_sums", _has_small_results, whole=True)
def whole_sums(window: Window) -> Seed:
    """Kernels that are images, as in the gradient by another convolution's weights, where images
    and channels swap roles. For each tap, one product sums over all pixels of all images: a channel
    of the result's gradient times the image pixels under it.
    """
    x, w, y = images(), weights(window[0]), results()
    conv = _around_windows("whole_sums", window, x, "image", "in_channel kernel_row kernel_col")
    taps = ("group", "out_row", "out_col", "image", "out_channel")
    space = (
        Space(conv)
        .split("out_channel", "image")
        .spread("out_channel", "rows")
        .spread("image", "columns")
        .choose(*_orders_by_images(taps))
        .vectorize("n")
        .prefetch(y, w, x)
        .limit(largest=_LARGEST, most=_MOST)
    )
    pixels = layout(x, ("group", "channels", "rows", "cols", "batch"))
    channels = layout(w, ("group", "out_channels", "in_channels", "kernel_rows", "kernel_cols"))
    sums = layout(
        y,
        ("group", "channels", "rows", "cols", "batch"),
        ("group", "rows", "cols", "channels", "batch"),
    )
    return Seed("whole_sums", (x, w, y), (space,), (pixels, channels, sums), ("x", "w"), "y")


def _orders_by_images(loops: tuple[str, ...]) -> Iterator[Alternative]:
    """Images for all channels of a tap; results one by one, or staged outside each loop in turn."""
    yield Reorder(loops), Stage("x", loops[-1])
    for loop in loops[1:]:
        yield Reorder(loops), Stage("x", loops[-1]), Stage("y", loop)


@for_windows("gathered_windows", _has_wide_windows, whole=True)
def gathered_windows(window: Window) -> Seed:
    """Windows gathered in the scratchpad from a part of the image as it lies: one row of the
    windows of a column of pixels is copied while the previous product runs.
    """
    x, kernel = images(), window[0]
    windows = tensor("windows", "scratch", _STRIPS.format(kernel[1]), operand=0)
    conv = _by_column(window, windows)
    gathered = next(u for u in conv.inputs if u.tensor == windows)
    roles = (("kernel_row", "r"), ("kernel_col", "t"), ("in_channel", "c"))
    copied = Transform(make_primitive("copy", {}), roles, gathered, x.on(under(window)))
    conv = replace(conv, before=copied, roles=(*conv.roles, ("out_col", "n")))
    w, y = weights(kernel), results()
    space = (
        Space(conv)
        .split("out_channel", "out_row", "out_col")
        .spread("out_channel", "rows")
        .spread("out_row", "columns")
        .spread("out_col", "columns")
        .walk("out_row", _PIXEL)
        .walk("out_col", _COLUMN)
        .choose(*_gathering())
        .vectorize("m")
        .prefetch(y)
        .limit(largest=_LARGEST, most=_MOST)
    )
    layouts = (layout(x, CHANNELS_LAST), *_layouts(window))
    return Seed("gathered_windows", (x, w, y), (space,), layouts, ("x", "w"), "y")


def _gathering() -> Iterator[Alternative]:
    """Weights that stay, or weights of all channels for each part; results by columns or parts."""
    inner = (_COLUMN, _PIXEL)
    for order in (("out_channel", "out_col", "out_row"), ("out_col", "out_row", "out_channel")):
        for y in (_PIXEL, _COLUMN):
            stages = Stage("x", _COLUMN), Stage("windows", _PIXEL), Stage("y", y)
            yield Reorder(("group", "image", *order, *inner)), *stages


def _strips(op: Conv2d, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """The image columns under each column of windows, one column of windows after the other."""
    x, w = INTERFACES["conv2d"].arrange(op, operands)  # x: group, channel, row, column, image
    columns = np.arange(op.out_width)[:, None] * op.stride[1] + np.arange(op.kernel[1])
    return x[:, :, :, columns].transpose(0, 5, 3, 2, 4, 1), w


def _layouts(window: Window) -> tuple[Any, ...]:
    """Results by rows or by columns of pixels; weights by output channels."""
    return layout(results(), CHANNELS_LAST, _BY_COLUMNS), layout(weights(window[0]), _WEIGHTS)


def _windows(
    window: Window, x: TensorSpec, *, turned: bool = False
) -> tuple[tuple[TensorSpec, ...], tuple[Space, ...]]:
    """Tensors and space of a convolution of the images `x`, whole or in strips."""
    w, y, conv = weights(window[0]), results(), _by_column(window, x, turned=turned)
    along = "out_col" if turned else "out_row"
    kernel_is_run = window[0][1] == 1 or "strips" in dict(x.dims)
    space = (
        Space(conv)
        .split("out_channel", along)
        .spread("out_channel", "rows")
        .spread(along, "columns")
        .walk(along, _PIXEL)
        .choose(*_choices(_TURNED if turned else {}))
        .vectorize("m")
        .prefetch(y, w, *([x] if kernel_is_run else []))
        .limit(largest=_LARGEST, most=_MOST)
    )
    return (x, w, y), (space,)


def _choices(names: Mapping[str, str]) -> Iterator[Alternative]:
    """Loop orders, each with the loops outside which tensors are staged; `names` renames loops."""
    for order in (tuple(names.get(loop, loop) for loop in own) for own in _ORDERS):
        for stages in _stages(order):
            yield Reorder(("group", "image", *order, _PIXEL)), *stages


def _stages(order: tuple[str, ...]) -> Iterator[tuple[Stage, ...]]:
    """Images staged per part of a column of windows, or whole for single pixels; results staged per
    pixel, per part, or for several parts.
    """
    for x in (_PIXEL, *order):
        yield (Stage("x", x),)
        for y in (_PIXEL, *order):
            yield Stage("x", x), Stage("y", y)


def _by_column(window: Window, x: TensorSpec, *, turned: bool = False) -> Nest:
    """The loops of a convolution around the product of one window."""
    name, runs, taps = "whole_windows", "out_row", "kernel_row kernel_col"
    if turned:
        name, runs, taps = "turned_windows", "out_col", "kernel_col kernel_row"
    return _around_windows(name, window, x, runs, f"{taps} in_channel")


def _around_windows(name: str, window: Window, x: TensorSpec, runs: str, terms: str) -> Nest:
    """The loops of a convolution around the product over all its `terms`, with vectors along the
    axis `runs`: rows or columns of pixels, or images where the kernel is one.
    """
    places = under(window)
    if "strips" in dict(x.dims):
        row = f"out_row * {window[1][0]} + kernel_row * {window[2][0]}"
        places = f"group, image, out_col, {row}, kernel_col, in_channel"
    return nest(
        name,
        "gemm",
        "group image out_row out_col out_channel in_channel kernel_row kernel_col",
        {"m": "out_channel", "n": runs, "k": terms},
        results().on(pixel()),
        weights(window[0]).on(KERNEL),
        x.on(places),
        inner="in_channel kernel_row kernel_col",
    )
