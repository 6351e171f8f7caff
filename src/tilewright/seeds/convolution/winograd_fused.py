"""Winograd's minimal filtering in the scratchpad: input transform, products and output transform of
a block of tiles follow each other there, so that main memory sees images and results alone.

Kernels are transformed first, and all of U stays in the scratchpad: for few channels. A block is
part of one row of tiles, of several columns or of several images; these may be stored in vectors of
four (`convolution.fours`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tilewright.common.expr import Expr, ceil_div
from tilewright.ir.primitives import make_primitive
from tilewright.ir.winograd import TEXTBOOK_POINTS
from tilewright.ops import Conv2d
from tilewright.seeds.convolution.fours import IMAGE_BLOCK, IMAGES_ORDER, LANES
from tilewright.seeds.convolution.tensors import (
    BATCH,
    CHANNELS_INNER,
    GROUPS,
    IN_CHANNELS,
    OUT_CHANNELS,
    OUT_COLS,
    OUT_ROWS,
    PIXELS_INNER,
    block_axes,
    images,
    in_blocks,
    results,
    weights,
)
from tilewright.seeds.convolution.winograd import (
    applies,
    filter_transform,
    transformed_kernels,
    winograd_roundings,
)
from tilewright.seeds.nest import Axis, Nest, TensorSpec, Transform, Use, axis, nest
from tilewright.seeds.space import Seed, Space, seed
from tilewright.seeds.steps import Layout, Spread, Step

MOST_CHANNELS = 128
"""Channels of images and of results: a larger U leaves a scratchpad no room for tiles."""


@seed("conv2d", name="winograd2_fused", staged=True)
def winograd2_fused(op: Conv2d) -> Seed | None:
    """F(2x2, 3x3), for few channels."""
    return _fused(2) if applies(op) and _has_few_channels(op) else None


@seed("conv2d", name="winograd2_fours", staged=True)
def winograd2_fours(op: Conv2d) -> Seed | None:
    """F(2x2, 3x3) on images in vectors of four, for batches of whole blocks of 32 images."""
    meets = applies(op) and _has_few_channels(op) and op.batch % IMAGE_BLOCK == 0
    return _fused_in_fours(2) if meets else None


def _has_few_channels(op: Conv2d) -> bool:
    return max(op.in_channels, op.out_channels) <= MOST_CHANNELS * op.groups


@cache
def _fused(size: int) -> Seed:
    over = (Spread("image", "columns"),), (Spread("tile_col", "columns"),)
    orders = (PIXELS_INNER, CHANNELS_INNER)
    pixels, named = (images(), results()), {"batch": axis("image", BATCH)}
    return _seed(f"winograd{size}_fused", size, pixels, named, over, orders)


@cache
def _fused_in_fours(size: int) -> Seed:
    over = ((Spread("image_block", "columns"),),)
    pixels, named = in_blocks(LANES), block_axes(LANES)
    return _seed(f"winograd{size}_fours", size, pixels, named, over, (IMAGES_ORDER,))


def _seed(
    name: str,
    size: int,
    pixels: tuple[TensorSpec, TensorSpec],
    images: Mapping[str, Axis],
    over: tuple[tuple[Step, ...], ...],
    orders: tuple[tuple[str, ...], ...],
) -> Seed:
    """`pixels` are images and results, stored in one of the `orders`; `images` gives the axis of
    each of their dimensions that counts images, `over` what the cores of a row share.
    """
    w, u = weights((3, 3)), transformed_kernels((size + 2) ** 2)
    block = _block(size, pixels, u, images)
    tile_col, out_channel, in_channel = map(block.axis, ("tile_col", "out_channel", "in_channel"))
    space = (
        Space(block)
        .split(*(a for a in images.values() if not a.inner), tile_col)
        .whole(out_channel, in_channel)
        .spread(out_channel, "rows")
        .spread(in_channel, "both")
        .choose(*over)
        .vectorize("m", "n")
        .stage(u, "tile_row")
        .prefetch(*reversed(pixels))
        .limit(largest=512, most=6)
    )
    return Seed(
        name,
        (*pixels, w, u),
        (filter_transform(w, u, size), space),
        _layouts(orders),
        ("x", "w"),
        "y",
        roundings=lambda values: winograd_roundings(TEXTBOOK_POINTS[size], values),
    )


def _block(
    size: int, pixels: tuple[TensorSpec, TensorSpec], u: TensorSpec, images: Mapping[str, Axis]
) -> Nest:
    """The product of one point of a block of tiles, the transforms of all its points around it."""
    group, point = axis("group", GROUPS), axis("point", (size + 2) ** 2)
    points = axis("points", point.extent, inner=True)
    out_channel, in_channel = axis("out_channel", OUT_CHANNELS), axis("in_channel", IN_CHANNELS)
    tiles = {
        "group": group,
        "tile_rows": axis("tile_row", ceil_div(OUT_ROWS, size)),
        "tile_cols": axis("tile_col", ceil_div(OUT_COLS, size)),
        **images,
    }
    of_tiles = {"points": point, **tiles}
    v, products = _tiles("v", in_channel, of_tiles), _tiles("products", out_channel, of_tiles)
    read, written = _window("in", size + 2), _window("out", size)
    of_pixels = _pixels(pixels[0], size, in_channel, tiles, read)
    of_results = _pixels(pixels[1], size, out_channel, tiles, written)
    before = Transform(
        make_primitive("winograd_input", {"output_tile": size}),
        _roles(in_channel, tiles, points, read),
        v.at(points=points, channels=in_channel, **tiles),
        of_pixels,
    )
    after = Transform(
        make_primitive("winograd_output", {"output_tile": size}),
        _roles(out_channel, tiles, points, written),
        of_results,
        products.at(points=points, channels=out_channel, **tiles),
    )
    return nest(
        "block",
        "gemm",
        (*tiles.values(), out_channel, in_channel, point, points, *read, *written),
        {"m": out_channel, "n": (tiles["tile_cols"], *images.values()), "k": in_channel},
        products.at(points=point, channels=out_channel, **tiles),
        u.at(group=group, points=point, out_channels=out_channel, in_channels=in_channel),
        v.at(points=point, channels=in_channel, **tiles),
        before=before,
        after=after,
    )


def _tiles(name: str, channel: Axis, others: Mapping[str, Axis]) -> TensorSpec:
    """Transformed tiles, or their products."""
    dims = (("channels", channel.extent), *((dim, a.extent) for dim, a in others.items()))
    return TensorSpec(name, "scratch", dims)


def _window(name: str, size: int) -> tuple[Axis, Axis]:
    """Rows and columns of a tile in space."""
    return axis(f"{name}_row", size, inner=True), axis(f"{name}_col", size, inner=True)


def _pixels(
    spec: TensorSpec, size: int, channel: Axis, tiles: Mapping[str, Axis], window: tuple[Axis, Axis]
) -> Use:
    """Images or results: windows of the tiles of a block."""
    places: dict[str, Axis | Expr] = dict(tiles)
    rows, cols = places.pop("tile_rows"), places.pop("tile_cols")
    assert isinstance(rows, Axis)
    assert isinstance(cols, Axis)
    row, col = window
    places |= {"rows": rows.var * size + row.var, "cols": cols.var * size + col.var}
    return spec.at(channels=channel, **places)


def _roles(
    channel: Axis, tiles: Mapping[str, Axis], points: Axis, window: tuple[Axis, Axis]
) -> tuple[tuple[str, str], ...]:
    """The letters of a transform's dimensions: rows of tiles have none, a block is in one."""
    _, _, tile_col, *images = tiles.values()
    named = zip((channel, tile_col, points, *window, *images), "ptxrcqs", strict=False)
    return tuple((a.name, letter) for a, letter in named)


def _layouts(orders: tuple[tuple[str, ...], ...]) -> tuple[tuple[tuple[Layout, ...], ...], ...]:
    """Tiles are stored as pixels are, point by point."""
    of_tiles = {"rows": "tile_rows", "cols": "tile_cols"}
    pixels_and_tiles = tuple(
        tuple(
            Layout(name, order)
            for names, order in (
                (("x", "y"), pixels),
                (("v", "products"), ("points", *(of_tiles.get(d, d) for d in pixels))),
            )
            for name in names
        )
        for pixels in orders
    )
    kernels = ("in_channels", "out_channels")
    filters = (
        Layout("u", ("group", "points", *kernels)),
        Layout("w", ("group", "kernel_rows", "kernel_cols", *kernels)),
    )
    return pixels_and_tiles, (filters,)
