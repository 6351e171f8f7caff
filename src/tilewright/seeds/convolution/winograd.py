"""Convolution by Winograd's minimal filtering: F(2x2, 3x3), F(4x4, 3x3) (swATOP 3, Lavin & Gray).

Four nests, all on the core cluster: transform the kernels, transform overlapping image tiles, one
matrix product per transform point (16 or 36), transform back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import sqrt

from tilewright.common.expr import Expr, IntLike, ceil_div
from tilewright.ir.primitives import make_primitive
from tilewright.ir.winograd import TEXTBOOK_POINTS, amplification
from tilewright.ops import Conv2d
from tilewright.seeds.convolution import tensors as conv
from tilewright.seeds.convolution.implicit import IMAGE_BLOCK, IMAGES_ORDER, LANES
from tilewright.seeds.convolution.tensors import images, in_blocks, results, weights
from tilewright.seeds.gemm import inner_space
from tilewright.seeds.nest import Nest, TensorSpec, Transform, nest, tensor
from tilewright.seeds.space import Seed, Space, layout, seed
from tilewright.seeds.steps import Layout, Spread, Step

_ROUNDINGS_OF_TRANSFORMS, _PER_PRODUCT = 9, 1 / 3
"""The transforms' roundings, counted in channels, and a product's units of deviation per square
root of a channel: fitted to measured errors of 16 to 1024 channels.
"""


@seed("conv2d", name="winograd2")
def winograd2(op: Conv2d) -> Seed | None:
    """F(2x2, 3x3): 16 products for each 2 x 2 tile of outputs."""
    return _winograd(2) if applies(op) else None


@seed("conv2d", name="winograd4")
def winograd4(op: Conv2d) -> Seed | None:
    """F(4x4, 3x3): 36 products for each 4 x 4 tile of outputs."""
    return _winograd(4) if applies(op) else None


def applies(op: Conv2d) -> bool:
    """True for 3 x 3 convolutions of floats without stride or dilation: the transforms divide."""
    window = (op.kernel, op.stride, op.dilation)
    return window == ((3, 3), (1, 1), (1, 1)) and op.numerics.is_float


def winograd_roundings(points: str, values: Mapping[str, int]) -> float:
    """Rounding error in round-offs: of sums over channels, amplified by the transforms."""
    terms = values["in_channels"] + _ROUNDINGS_OF_TRANSFORMS
    return _PER_PRODUCT * amplification(points) * sqrt(terms)


@cache
def _winograd(size: int) -> Seed:
    points = (size + 2) ** 2
    rows, cols = ceil_div(conv.OUT_ROWS, size), ceil_div(conv.OUT_COLS, size)
    x, w, y, u = images(), weights((3, 3)), results(), transformed_kernels(points)
    (v, v_matrix), (products, product_matrix) = (
        _tiles(names, f"group=groups, points={points}, channels={side}_channels", rows, cols)
        for names, side in ((("v", "v_matrix"), "in"), (("products", "product_matrix"), "out"))
    )
    axes = ("out_channel", "tile", "in_channel")
    spaces = (
        filter_transform(w, u, size),
        _tile_transform("input", size, x, v),
        inner_space("product", product_matrix, u, v_matrix, "group point", axes),
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
    """U: one matrix of transformed kernels per transform point."""
    dims = f"group=groups, points={points}, out_channels=out_channels, in_channels=in_channels"
    return tensor("u", "scratch", dims)


def _tiles(
    names: tuple[str, str], dims: str, rows: Expr, cols: Expr
) -> tuple[TensorSpec, TensorSpec]:
    """The transformed tiles by row and column, and viewed as matrix columns for each point."""
    name, matrix = names
    tiles = tensor(name, "scratch", dims, tile_rows=rows, tile_cols=cols, batch=conv.BATCH)
    return tiles, tensor(matrix, "scratch", dims, storage=name, tiles=rows * cols * conv.BATCH)


def filter_transform(w: TensorSpec, u: TensorSpec, size: int) -> Space:
    """The space of the kernel transform, tiled in output and input channels."""
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
    """The kernel transform over output and input channels, looped in the order of U."""
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
    """The transform between pixels and transform points: overlapping windows of the `input`,
    disjoint tiles of the `output`. With `outer` loops, `starts` gives the first tile row, channel
    and image of a block.
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


def _layouts(u: TensorSpec) -> tuple[tuple[tuple[Layout, ...], ...], ...]:
    """Tiles or channels contiguous, alike in all four large tensors; kernels in either order."""
    tiles = ("tile_rows", "tile_cols", "batch")
    tiles_inner = (
        Layout("x", conv.PIXELS_INNER),
        Layout("y", conv.PIXELS_INNER),
        Layout("v", ("group", "points", "channels", *tiles)),
        Layout("v_matrix", ("group", "points", "channels", "tiles")),
        Layout("products", ("group", "points", "channels", *tiles)),
        Layout("product_matrix", ("group", "points", "channels", "tiles")),
    )
    channels_inner = (
        Layout("x", conv.CHANNELS_INNER),
        Layout("y", conv.CHANNELS_INNER),
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


# Winograd's minimal filtering in the scratchpad: input transform, products and output transform of
# a block of tiles follow each other there, so main memory holds only images and results.
#
# Kernels are transformed first, and all of U stays in the scratchpad, hence few channels. A block
# is part of one row of tiles and spans several columns or several images; images may be stored in
# vectors of four (`convolution.implicit`).

MOST_CHANNELS = 128
"""Channels of images and of results; a larger U leaves no room for tiles in a scratchpad."""


@seed("conv2d", name="winograd2_fused", staged=True)
def winograd2_fused(op: Conv2d) -> Seed | None:
    """F(2x2, 3x3) in the scratchpad, for few channels."""
    return _fused(2) if applies(op) and _has_few_channels(op) else None


@seed("conv2d", name="winograd2_fours", staged=True)
def winograd2_fours(op: Conv2d) -> Seed | None:
    """F(2x2, 3x3) on images in vectors of four, for batches that are multiples of 32."""
    meets = applies(op) and _has_few_channels(op) and op.batch % IMAGE_BLOCK == 0
    return _fused_in_fours(2) if meets else None


def _has_few_channels(op: Conv2d) -> bool:
    return max(op.in_channels, op.out_channels) <= MOST_CHANNELS * op.groups


@cache
def _fused(size: int) -> Seed:
    over = (Spread("image", "columns"),), (Spread("tile_col", "columns"),)
    orders = (conv.PIXELS_INNER, conv.CHANNELS_INNER)
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
    """The seed on `pixels` (images, results), both stored in one of the `orders`. `counted` names
    the axes that count images, `over` the axes that the cores of a row divide.
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
        _fused_layouts(orders),
        ("x", "w"),
        "y",
        roundings=lambda values: winograd_roundings(TEXTBOOK_POINTS[size], values),
    )


def _block(size: int, pixels: tuple[TensorSpec, TensorSpec], u: TensorSpec, counted: str) -> Nest:
    """The product of one point for a block of tiles, inside the transforms of all its points."""
    points, place = (size + 2) ** 2, f"tile_row, tile_col, {', '.join(counted.split())}"
    rows, cols = ceil_div(conv.OUT_ROWS, size), ceil_div(conv.OUT_COLS, size)
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
    """The transform from images to tiles ("in") or from tiles to results ("out"). Rows of tiles
    have no letter, since a block lies within one.
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


def _fused_layouts(
    orders: tuple[tuple[str, ...], ...],
) -> tuple[tuple[tuple[Layout, ...], ...], ...]:
    """Tiles in the storage order of the pixels, with points outermost."""
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
