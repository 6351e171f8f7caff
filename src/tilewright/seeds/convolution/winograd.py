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
from tilewright.seeds.nest import Axis, Nest, TensorSpec, axis, nest, tensor
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
        _tile_transform("input", size, x, v),
        _point_products(u, v_matrix, product_matrix, points),
        _tile_transform("output", size, y, products),
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
    channels = axis("out_channel", OUT_CHANNELS), axis("in_channel", IN_CHANNELS)
    return (
        Space(filter_nest(size, w, u, axis("group", GROUPS), channels))
        .split(*channels)
        .spread(channels[0], "rows")
        .spread(channels[1], "columns")
        .prefetch(u, w)
        .limit(largest=512, most=10)
    )


def filter_nest(
    size: int,
    w: TensorSpec,
    u: TensorSpec,
    group: Axis,
    channels: tuple[Axis, Axis],
) -> Nest:
    """The transform of kernels, along output and input channels in either order."""
    point = axis("point", (size + 2) ** 2, inner=True)
    row, col = axis("row", 3, inner=True), axis("col", 3, inner=True)
    of_channels = {f"{a.name}s": a for a in channels}
    return nest(
        "filter",
        "winograd_filter",
        (group, *channels, point, row, col),
        {"p": channels[0], "q": channels[1], "x": point, "r": row, "c": col},
        u.at(group=group, points=point, **of_channels),
        w.at(group=group, kernel_rows=row, kernel_cols=col, **of_channels),
        output_tile=size,
    )


def tile_nest(
    name: str,
    size: int,
    pixels: TensorSpec,
    tiles: TensorSpec,
    channel: Axis,
    outer: tuple[Axis, ...],
    starts: Mapping[str, Expr],
) -> Nest:
    """Between pixels and transform points: overlapping windows of the `input`, disjoint ones of the
    `output`. The loops `outer` say at which rows of tiles, channel and image a block `starts`.
    """
    extents, window = dict(tiles.dims), size + 2 if name == "input" else size
    tile_row, tile_col, image = (
        axis(own, extents[dim])
        for own, dim in (("tile_row", "tile_rows"), ("tile_col", "tile_cols"), ("image", "batch"))
    )
    point = axis("point", (size + 2) ** 2, inner=True)
    row, col = axis("row", window, inner=True), axis("col", window, inner=True)
    places: dict[str, Expr] = {"rows": tile_row.var, "channels": channel.var, "batch": image.var}
    places |= {dim: start + places[dim] for dim, start in starts.items()}
    of_pixels = pixels.at(
        group=outer[0],
        channels=places["channels"],
        rows=places["rows"] * size + row.var,
        cols=tile_col.var * size + col.var,
        batch=places["batch"],
    )
    of_tiles = {"points": point, "channels": channel, "batch": image}
    of_tiles |= {"tile_rows": tile_row, "tile_cols": tile_col}
    uses = of_pixels, tiles.at(**of_tiles, **({"group": outer[0]} if "group" in extents else {}))
    return nest(
        name,
        f"winograd_{name}",
        (*outer, tile_row, channel, tile_col, image, point, row, col),
        {"p": channel, "t": tile_col, "q": image, "x": point, "r": row, "c": col},
        *(reversed(uses) if name == "input" else uses),
        output_tile=size,
    )


def _tile_transform(name: str, size: int, pixels: TensorSpec, tiles: TensorSpec) -> Space:
    channel, outer = axis("channel", dict(tiles.dims)["channels"]), (axis("group", GROUPS),)
    transform = tile_nest(name, size, pixels, tiles, channel, outer, {})
    return (
        Space(transform)
        .split(channel, transform.axis("tile_col"), transform.axis("image"))
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
