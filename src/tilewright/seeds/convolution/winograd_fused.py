"""Winograd's minimal filtering in the scratchpad: input transform, products and output transform of
a block of tiles follow each other there, so that main memory sees images and results alone.

Kernels are transformed first, and all of U stays in the scratchpad: for few channels. A block is
part of one row of tiles, of several columns or of several images; these may be stored in vectors of
four (`convolution.fours`).
"""

from __future__ import annotations

from functools import cache

from tilewright.common.expr import ceil_div
from tilewright.ir.primitives import make_primitive
from tilewright.ir.winograd import TEXTBOOK_POINTS
from tilewright.ops import Conv2d
from tilewright.seeds.convolution.fours import IMAGE_BLOCK, IMAGES_ORDER, LANES
from tilewright.seeds.convolution.tensors import (
    CHANNELS_INNER,
    OUT_COLS,
    OUT_ROWS,
    PIXELS_INNER,
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
from tilewright.seeds.nest import Nest, TensorSpec, Transform, nest, tensor
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
    return _seed(f"winograd{size}_fused", size, (images(), results()), "image", over, orders)


@cache
def _fused_in_fours(size: int) -> Seed:
    over = ((Spread("image_block", "columns"),),)
    counted = "image_block lane"
    return _seed(f"winograd{size}_fours", size, in_blocks(LANES), counted, over, (IMAGES_ORDER,))


def _seed(
    name: str,
    size: int,
    pixels: tuple[TensorSpec, TensorSpec],
    counted: str,
    over: tuple[tuple[Step, ...], ...],
    orders: tuple[tuple[str, ...], ...],
) -> Seed:
    """`pixels` are images and results, stored in one of the `orders`; `counted` names the axis of
    each of their dimensions that counts images, `over` what the cores of a row share.
    """
    w, u = weights((3, 3)), transformed_kernels((size + 2) ** 2)
    space = (
        Space(_block(size, pixels, u, counted))
        .split(counted.split()[0], "tile_col")
        .whole("out_channel", "in_channel")
        .spread("out_channel", "rows")
        .spread("in_channel", "both")
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


def _block(size: int, pixels: tuple[TensorSpec, TensorSpec], u: TensorSpec, counted: str) -> Nest:
    """The product of one point of a block of tiles, the transforms of all its points around it."""
    points, place = (size + 2) ** 2, f"tile_row, tile_col, {', '.join(counted.split())}"
    rows, cols = ceil_div(OUT_ROWS, size), ceil_div(OUT_COLS, size)
    shape = f"points={points}, group=groups, tile_rows={rows}, tile_cols={cols}"
    shape += "".join(f", {dim}={extent}" for dim, extent in pixels[0].dims[4:])
    v = tensor("v", "scratch", f"channels=in_channels, {shape}")
    products = tensor("products", "scratch", f"channels=out_channels, {shape}")
    windows = dict.fromkeys(("in_row", "in_col"), size + 2)
    return nest(
        "block",
        "gemm",
        f"group tile_row tile_col {counted} out_channel in_channel point points "
        "in_row in_col out_row out_col",
        {"m": "out_channel", "n": f"tile_col {counted}", "k": "in_channel"},
        products.on(f"out_channel, point, group, {place}"),
        u.on("group, point, out_channel, in_channel"),
        v.on(f"in_channel, point, group, {place}"),
        inner="points in_row in_col out_row out_col lane",
        extents={"points": points, **windows, "out_row": size, "out_col": size},
        before=_transform("in", size, v, pixels[0], counted),
        after=_transform("out", size, products, pixels[1], counted),
    )


def _transform(
    way: str, size: int, tiles: TensorSpec, pixels: TensorSpec, counted: str
) -> Transform:
    """Of images to tiles on the way in, of tiles to results on the way out; rows of tiles have no
    letter, as a block is in one.
    """
    channel, images = f"{way}_channel", ", ".join(counted.split())
    rows, cols = f"tile_row * {size} + {way}_row", f"tile_col * {size} + {way}_col"
    of_pixels = pixels.on(f"group, {channel}, {rows}, {cols}, {images}")
    of_tiles = tiles.on(f"{channel}, points, group, tile_row, tile_col, {images}")
    names = f"{channel} tile_col points {way}_row {way}_col {counted}"
    roles = tuple(zip(names.split(), "ptxrcqs", strict=False))
    primitive = make_primitive(f"winograd_{way}put", {"output_tile": size})
    uses = (of_tiles, of_pixels) if way == "in" else (of_pixels, of_tiles)
    return Transform(primitive, roles, *uses)


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
