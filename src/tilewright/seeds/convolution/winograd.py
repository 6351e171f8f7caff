"""Convolution by Winograd's minimal filtering: F(2x2, 3x3), F(4x4, 3x3) (swATOP 3, Lavin & Gray).

Four nests: transform the kernels, transform overlapping image tiles, one matrix product per
transform point (16 or 36), transform back. All four run on the core cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import sqrt

from tilewright.common.expr import Expr, ceil_div
from tilewright.ir.winograd import TEXTBOOK_POINTS, amplification
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
    images,
    results,
    weights,
)
from tilewright.seeds.gemm import gemm_space
from tilewright.seeds.nest import TensorSpec, axis, nest, tensor
from tilewright.seeds.space import Seed, Space, layout, seed
from tilewright.seeds.steps import Layout, Spread

_ROUNDINGS_OF_TRANSFORMS, _PER_PRODUCT = 9, 1 / 3
"""Channels' worth of roundings, and units of deviation of a product for each square root of one:
fitted to measured errors of 16 to 1024 channels.
"""


@seed("conv2d", name="winograd2")
def winograd2(op: Conv2d) -> Seed | None:
    """F(2x2, 3x3): 16 products of tiles that give 2 x 2 outputs."""
    return _winograd(2) if applies(op) else None


@seed("conv2d", name="winograd4")
def winograd4(op: Conv2d) -> Seed | None:
    """F(4x4, 3x3): 36 products of tiles that give 4 x 4 outputs."""
    return _winograd(4) if applies(op) else None


def applies(op: Conv2d) -> bool:
    """True for 3 x 3 convolutions of floats without stride and dilation: the transforms divide."""
    window = (op.kernel, op.stride, op.dilation)
    return window == ((3, 3), (1, 1), (1, 1)) and op.numerics.is_float


def winograd_roundings(points: str, values: Mapping[str, int]) -> float:
    """Rounding error of a result in round-off units: of sums over the channels and of the
    transforms, amplified.
    """
    terms = values["in_channels"] + _ROUNDINGS_OF_TRANSFORMS
    return _PER_PRODUCT * amplification(points) * sqrt(terms)


@cache
def _winograd(size: int) -> Seed:
    points = (size + 2) ** 2
    rows, cols = ceil_div(OUT_ROWS, size), ceil_div(OUT_COLS, size)
    x, w, y = images(), weights((3, 3)), results()
    u = transformed_kernels(points)
    v = _tiles("v", points, IN_CHANNELS, rows, cols)
    products = _tiles("products", points, OUT_CHANNELS, rows, cols)
    v_matrix = _matrix("v_matrix", "v", points, IN_CHANNELS, rows * cols * BATCH)
    product_matrix = _matrix(
        "product_matrix", "products", points, OUT_CHANNELS, rows * cols * BATCH
    )
    spaces = (
        filter_transform(w, u, size),
        _tile_transform("input", size, x, v, forward=True),
        _point_products(u, v_matrix, product_matrix, points),
        _tile_transform("output", size, y, products, forward=False),
    )
    tensors = (x, w, y, u, v, products, v_matrix, product_matrix)
    return Seed(
        f"winograd{size}",
        tensors,
        spaces,
        _layouts(u),
        ("x", "w"),
        "y",
        roundings=lambda values: winograd_roundings(TEXTBOOK_POINTS[size], values),
    )


def transformed_kernels(points: int) -> TensorSpec:
    """U, a matrix for each point."""
    return tensor(
        "u",
        "scratch",
        group=GROUPS,
        points=points,
        out_channels=OUT_CHANNELS,
        in_channels=IN_CHANNELS,
    )


def _tiles(name: str, points: int, channels: Expr, rows: Expr, cols: Expr) -> TensorSpec:
    return tensor(
        name,
        "scratch",
        group=GROUPS,
        points=points,
        channels=channels,
        tile_rows=rows,
        tile_cols=cols,
        batch=BATCH,
    )


def _matrix(name: str, storage: str, points: int, channels: Expr, tiles: Expr) -> TensorSpec:
    return tensor(
        name,
        "scratch",
        storage=storage,
        group=GROUPS,
        points=points,
        channels=channels,
        tiles=tiles,
    )


def filter_transform(w: TensorSpec, u: TensorSpec, size: int) -> Space:
    """The transform of all kernels, which are few."""
    group, point = axis("group", GROUPS), axis("point", (size + 2) ** 2, inner=True)
    out_channel, in_channel = axis("out_channel", OUT_CHANNELS), axis("in_channel", IN_CHANNELS)
    row, col = axis("row", 3, inner=True), axis("col", 3, inner=True)
    transform = nest(
        "filter",
        "winograd_filter",
        (group, out_channel, in_channel, point, row, col),
        {"p": out_channel, "q": in_channel, "x": point, "r": row, "c": col},
        u.at(group=group, points=point, out_channels=out_channel, in_channels=in_channel),
        w.at(
            group=group,
            out_channels=out_channel,
            in_channels=in_channel,
            kernel_rows=row,
            kernel_cols=col,
        ),
        output_tile=size,
    )
    return (
        Space(transform)
        .split(out_channel, in_channel)
        .spread(out_channel, "rows")
        .spread(in_channel, "columns")
        .prefetch(u, w)
        .limit(largest=512, most=10)
    )


def _tile_transform(
    name: str, size: int, pixels: TensorSpec, tiles: TensorSpec, *, forward: bool
) -> Space:
    """Between pixels and transform points: overlapping windows forward, disjoint ones back."""
    window = size + 2 if forward else size
    extents = dict(tiles.dims)
    group, image = axis("group", GROUPS), axis("image", BATCH)
    channel = axis("channel", extents["channels"])
    tile_row, tile_col = (
        axis("tile_row", extents["tile_rows"]),
        axis("tile_col", extents["tile_cols"]),
    )
    point = axis("point", (size + 2) ** 2, inner=True)
    row, col = axis("row", window, inner=True), axis("col", window, inner=True)
    of_pixels = pixels.at(
        group=group,
        channels=channel,
        rows=tile_row.var * size + row.var,
        cols=tile_col.var * size + col.var,
        batch=image,
    )
    of_tiles = tiles.at(
        group=group,
        points=point,
        channels=channel,
        tile_rows=tile_row,
        tile_cols=tile_col,
        batch=image,
    )
    transform = nest(
        name,
        f"winograd_{name}",
        (group, tile_row, channel, tile_col, image, point, row, col),
        {"p": channel, "t": tile_col, "q": image, "x": point, "r": row, "c": col},
        *((of_tiles, of_pixels) if forward else (of_pixels, of_tiles)),
        output_tile=size,
    )
    return (
        Space(transform)
        .split(channel, tile_col, image)
        .spread(channel, "rows")
        .choose((Spread("image", "columns"),), (Spread("tile_col", "columns"),))
        .prefetch(pixels, tiles)
        .limit(largest=512, most=6)
    )


def _point_products(u: TensorSpec, v: TensorSpec, products: TensorSpec, points: int) -> Space:
    group, point = axis("group", GROUPS), axis("point", points)
    out_channel, in_channel = axis("out_channel", OUT_CHANNELS), axis("in_channel", IN_CHANNELS)
    tile = axis("tile", dict(v.dims)["tiles"])
    product = nest(
        "product",
        "gemm",
        (group, point, out_channel, tile, in_channel),
        {"m": out_channel, "n": tile, "k": in_channel},
        products.at(group=group, points=point, channels=out_channel, tiles=tile),
        u.at(group=group, points=point, out_channels=out_channel, in_channels=in_channel),
        v.at(group=group, points=point, channels=in_channel, tiles=tile),
    )
    return gemm_space(product, "out_channel", "tile", "in_channel", inner_only=True, most=4)


def _layouts(u: TensorSpec) -> tuple[tuple[tuple[Layout, ...], ...], ...]:
    """Tiles or channels contiguous in all four large tensors together; kernels either way."""
    tiles = ("tile_rows", "tile_cols", "batch")
    tiles_inner = (
        Layout("x", PIXELS_INNER),
        Layout("y", PIXELS_INNER),
        Layout("v", ("group", "points", "channels", *tiles)),
        Layout("v_matrix", ("group", "points", "channels", "tiles")),
        Layout("products", ("group", "points", "channels", *tiles)),
        Layout("product_matrix", ("group", "points", "channels", "tiles")),
    )
    channels_inner = (
        Layout("x", CHANNELS_INNER),
        Layout("y", CHANNELS_INNER),
        Layout("v", ("group", "points", *tiles, "channels")),
        Layout("v_matrix", ("group", "points", "tiles", "channels")),
        Layout("products", ("group", "points", *tiles, "channels")),
        Layout("product_matrix", ("group", "points", "tiles", "channels")),
    )
    kernels = tuple(
        (*chosen, Layout("w", ("group", "kernel_rows", "kernel_cols", *chosen[0].dims[2:])))
        for chosen in layout(
            u,
            ("group", "points", "in_channels", "out_channels"),
            ("group", "points", "out_channels", "in_channels"),
        )
    )
    return (tiles_inner, channels_inner), kernels
