"""Convolution by Winograd's minimal filtering: F(2x2, 3x3), F(4x4, 3x3) (swATOP 3, Lavin & Gray).

Four nests: transform the kernels, transform overlapping image tiles, one matrix product per
transform point (16 or 36), transform back. All four run on the core cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import sqrt

from tilewright.common.expr import Expr, IntLike, ceil_div
from tilewright.ir.winograd import TEXTBOOK_POINTS, amplification
from tilewright.ops import Conv2d
from tilewright.seeds.convolution.tensors import (
    BATCH,
    CHANNELS_INNER,
    OUT_COLS,
    OUT_ROWS,
    PIXELS_INNER,
    images,
    results,
    weights,
)
from tilewright.seeds.gemm import gemm_space
from tilewright.seeds.nest import Nest, TensorSpec, nest, tensor
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
    x, w, y, u = images(), weights((3, 3)), results(), transformed_kernels(points)
    (v, v_matrix), (products, product_matrix) = (
        _tiles(names, f"group=groups, points={points}, channels={side}_channels", rows, cols)
        for names, side in ((("v", "v_matrix"), "in"), (("products", "product_matrix"), "out"))
    )
    spaces = (
        filter_transform(w, u, size),
        _tile_transform("input", size, x, v),
        _point_products(u, v_matrix, product_matrix),
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
    dims = f"group=groups, points={points}, out_channels=out_channels, in_channels=in_channels"
    return tensor("u", "scratch", dims)


def _tiles(
    names: tuple[str, str], dims: str, rows: Expr, cols: Expr
) -> tuple[TensorSpec, TensorSpec]:
    """The transformed tiles by row and column, and as columns of a matrix for each point."""
    name, matrix = names
    tiles = tensor(name, "scratch", dims, tile_rows=rows, tile_cols=cols, batch=BATCH)
    return tiles, tensor(matrix, "scratch", dims, storage=name, tiles=rows * cols * BATCH)


def filter_transform(w: TensorSpec, u: TensorSpec, size: int) -> Space:
    """The transform of all kernels, which are few."""
    return (
        Space(filter_nest(size, w, u, "group", ("out_channel", "in_channel")))
        .split("out_channel", "in_channel")
        .spread("out_channel", "rows")
        .spread("in_channel", "columns")
        .prefetch(u, w)
        .limit(largest=512, most=10)
    )


def filter_nest(
    size: int, w: TensorSpec, u: TensorSpec, group: str, channels: tuple[str, str]
) -> Nest:
    """The transform of kernels, along output and input channels in the order of U."""
    first, second = channels
    return nest(
        "filter",
        "winograd_filter",
        f"{group} {first} {second} point row col",
        {"p": first, "q": second, "x": "point", "r": "row", "c": "col"},
        u.on(f"{group}, point, {first}, {second}"),
        w.on(f"{group}, out_channel, in_channel, row, col"),
        inner="point row col",
        output_tile=size,
    )


def tile_nest(
    name: str,
    size: int,
    pixels: TensorSpec,
    tiles: TensorSpec,
    outer: str = "group",
    starts: Mapping[str, str] | None = None,
    extents: Mapping[str, IntLike] | None = None,
) -> Nest:
    """Between pixels and transform points: overlapping windows of the `input`, disjoint ones of the
    `output`. The loops `outer` say at which rows of tiles, channel and image a block `starts`.
    """
    window = size + 2 if name == "input" else size
    row, channel, image = (
        f"{starts[own]} + {own}" if starts and own in starts else own
        for own in ("tile_row", "channel", "image")
    )
    of_pixels = pixels.on(
        f"group, {channel}, ({row}) * {size} + row, tile_col * {size} + col, {image}"
    )
    places = {"group": "group", "points": "point", "channels": "channel", "batch": "image",
              "tile_rows": "tile_row", "tile_cols": "tile_col"}  # fmt: skip
    uses = of_pixels, tiles.on(", ".join(places[dim] for dim, _ in tiles.dims))
    return nest(
        name,
        f"winograd_{name}",
        f"{outer} tile_row channel tile_col image point row col",
        {"p": "channel", "t": "tile_col", "q": "image", "x": "point", "r": "row", "c": "col"},
        *(reversed(uses) if name == "input" else uses),
        inner="point row col",
        extents={"row": window, "col": window, **(extents or {})},
        output_tile=size,
    )


def _tile_transform(name: str, size: int, pixels: TensorSpec, tiles: TensorSpec) -> Space:
    return (
        Space(tile_nest(name, size, pixels, tiles))
        .split("channel", "tile_col", "image")
        .spread("channel", "rows")
        .choose((Spread("image", "columns"),), (Spread("tile_col", "columns"),))
        .prefetch(pixels, tiles)
        .limit(largest=512, most=6)
    )


def _point_products(u: TensorSpec, v: TensorSpec, products: TensorSpec) -> Space:
    product = nest(
        "product",
        "gemm",
        "group point out_channel tile in_channel",
        {"m": "out_channel", "n": "tile", "k": "in_channel"},
        products.on("group, point, out_channel, tile"),
        u.on("group, point, out_channel, in_channel"),
        v.on("group, point, in_channel, tile"),
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
