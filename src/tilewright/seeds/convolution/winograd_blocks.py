"""Winograd's minimal filtering for machines with caches: one block of tiles at a time, so that
intermediate results stay in a cache.

Kernels are transformed once, ahead of all calls. For each block of tile rows, of one image or of
several small ones, the images are transformed; then, for each group of output channels, come one
matrix product per transform point and the output transform. Non-integer points round better and
cost nothing here (Barabasz et al. 2020): F(4x4, 3x3) with +-5/8 and +-3/2 has a quarter of the
error of the textbook's +-1 and +-2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product as combinations

from tilewright.common.expr import Expr, Var, ceil_div
from tilewright.ir.primitive import Attribute
from tilewright.ir.primitives import make_primitive
from tilewright.ops import Conv2d
from tilewright.seeds.convolution.tensors import IN_CHANNELS, OUT_COLS, images, results, weights
from tilewright.seeds.convolution.winograd import (
    applies,
    filter_nest,
    tile_nest,
    winograd_roundings,
)
from tilewright.seeds.nest import Nest, TensorSpec, nest, tensor
from tilewright.seeds.space import Blocks, Seed, Space, layout, seed
from tilewright.seeds.steps import IN_PLACE

POINTS = {
    2: "0 1 -1",
    3: "2/5 -2/5 5/4 -5/4",
    4: "0 5/8 -5/8 3/2 -3/2",
    5: "1/3 -1/3 7/8 -7/8 8/5 -8/5",
    6: "0 1/2 -1/2 1 -1 2 -2",
}
"""Finite interpolation points for each output tile size; the point at infinity is always added."""

BLOCK_ROWS, WHOLE_ROWS, BLOCKS = Var("block_rows"), Var("whole_rows"), Var("blocks")
BLOCK_IMAGES, IMAGE_BLOCKS = Var("block_images"), Var("image_blocks")
GROUP_CHANNELS, CHANNEL_GROUPS = Var("group_channels"), Var("channel_groups")
IN_PITCH = Var("in_pitch")
TILE_PITCH = Var("tile_pitch")
_CHANNELS_LAST = ("group", "batch", "rows", "cols", "channels")
_TOGETHER = ("group", "image_block", "block", "channel_group")
_OUTER = {"image_block": IMAGE_BLOCKS, "block": BLOCKS, "channel_group": CHANNEL_GROUPS}
"""Extents of the loops that the nests share."""
_BLOCKS_TRIED = (1, 2, 3, 4, 5, 7, 8, 10, 14, 19, 28, 56)
_FEWEST_CHANNELS = 32
_MOST_TILES = 256
"""Tiles over several images that share one read of U; more bring no gain."""
_LINE, _MEETING = 16, 256
"""f32 channels per cache line; rows of `_MEETING` multiples share few cache sets."""
_APART = 16
"""Cache lines; points of a tile that are a multiple of this apart map to few cache sets."""


@seed("conv2d", name="winograd2", addressed=True)
def winograd2(op: Conv2d) -> Seed | None:
    """F(2x2, 3x3): 16 products, 2.25 times fewer multiplications."""
    return _blocked(2, op)


@seed("conv2d", name="winograd3", addressed=True)
def winograd3(op: Conv2d) -> Seed | None:
    """F(3x3, 3x3): 25 products, 3.24 times fewer multiplications. For images of few tiles, where
    each transformed kernel serves few products; F(4x4, 3x3) reads 36.
    """
    return _blocked(3, op)


@seed("conv2d", name="winograd4", addressed=True)
def winograd4(op: Conv2d) -> Seed | None:
    """F(4x4, 3x3): 36 products, 4 times fewer multiplications."""
    return _blocked(4, op)


@seed("conv2d", name="winograd5", addressed=True)
def winograd5(op: Conv2d) -> Seed | None:
    """F(5x5, 3x3): 49 products, 4.59 times fewer multiplications. Its error is twice that of F(4x4,
    3x3), so it must save a fifth of the products of that.
    """
    return _blocked(5, op) if 5 * _products(5, op) <= 4 * _products(4, op) else None


@seed("conv2d", name="winograd6", addressed=True)
def winograd6(op: Conv2d) -> Seed | None:
    """F(6x6, 3x3): 64 products, 5.06 times fewer multiplications, and larger errors."""
    return _blocked(6, op)


def _products(size: int, op: Conv2d) -> int:
    """Products of all tiles, per pair of channels."""
    *_, rows, cols = op.out_shape
    return -(-rows // size) * -(-cols // size) * (size + 2) ** 2


def _blocked(size: int, op: Conv2d) -> Seed | None:
    if not applies(op):
        return None
    *_, rows, cols = op.out_shape
    return _seed(size, rows > size and rows % size > 0, cols > size and cols % size > 0)


@cache
def _seed(size: int, cut_rows: bool, cut_cols: bool) -> Seed:
    """F(size x size, 3x3); the edge of the results may cut the last row or column of tiles."""
    points, cols = (size + 2) ** 2, ceil_div(OUT_COLS, size)
    x, w, y = images(), weights((3, 3)), results()
    dims = f"group=groups, points={points}, in_channels=in_channels, out_channels=out_channels"
    u = tensor("u", "scratch", dims)
    shape = f"points={points}, tile_rows=block_rows, tile_cols=%s, batch=block_images"
    v = tensor("v", "scratch", shape % TILE_PITCH, channels=IN_PITCH)
    products = tensor("products", "scratch", shape % cols, channels=GROUP_CHANNELS)
    rows = _lines(size, cut_rows, BLOCK_ROWS, WHOLE_ROWS)
    columns = _lines(size, cut_cols, cols, OUT_COLS // size)
    spaces = (
        _filter_transform(w, u, size),
        _tile_transform("input", size, x, v, IN_CHANNELS),
        *(
            _point_products(u, v, products, size, number, *each)
            for number, each in enumerate(combinations(rows, columns))
        ),
        _tile_transform("output", size, y, products, GROUP_CHANNELS),
    )
    orders = {
        x: _CHANNELS_LAST,
        y: _CHANNELS_LAST,
        w: ("group", "kernel_rows", "kernel_cols", "in_channels", "out_channels"),
    }
    tensors = (x, w, y, u, v, products)
    layouts = tuple(layout(t, orders.get(t, tuple(d for d, _ in t.dims))) for t in tensors)
    return Seed(
        f"winograd{size}",
        tensors,
        spaces,
        layouts,
        ("x", "w"),
        "y",
        _TOGETHER,
        _sizes_of_blocks(size),
        lambda values: winograd_roundings(POINTS[size], values),
    )


def _sizes_of_blocks(size: int) -> Blocks:
    def blocks(values: Mapping[str, int]) -> Sequence[Mapping[str, int]]:
        """A few numbers of blocks that nearly divide the tile rows, and of channel groups. A block
        of several images holds all of their rows.
        """
        rows, columns = (-(-values[side] // size) for side in ("out_rows", "out_cols"))
        channels, pitch = values["out_channels"], _pitch(values["in_channels"])
        batch, tiles = values["batch"], rows * columns
        heights = dict.fromkeys(-(-rows // count) for count in _BLOCKS_TRIED if count <= rows)
        blocks = [(height, 1) for height in heights]
        together = range(2, min(batch, _MOST_TILES // tiles) + 1)
        blocks += [(rows, count) for count in together if batch % count == 0]
        widths = [channels]
        for parts in (2, 4, 8, 16):
            if channels % (parts * _FEWEST_CHANNELS) == 0:
                widths.append(channels // parts)
        return tuple(
            {
                "block_rows": height,
                "whole_rows": height if height < rows else values["out_rows"] // size,
                "blocks": -(-rows // height),
                "group_channels": width,
                "channel_groups": channels // width,
                "in_pitch": pitch,
                "tile_pitch": _tile_pitch(columns, height, images * pitch),
                "block_images": images,
                "image_blocks": batch // images,
            }
            for height, images in blocks
            for width in widths
        )

    return blocks


def _pitch(channels: int) -> int:
    """Channels per row, plus a spare cache line where rows would conflict in level 1 cache sets."""
    return channels + _LINE if channels % _MEETING == 0 else channels


def _tile_pitch(columns: int, rows: int, channels: int) -> int:
    """Tiles per row, plus a spare one where the points of a one-row block would conflict in level 1
    cache sets: a tile's points are written one after the other.
    """
    return columns + (rows == 1 and columns * channels % (_APART * _LINE) == 0)


@dataclass(frozen=True)
class _Line:
    """Points of one direction from number `first` on, and how many tiles need them."""

    first: int
    points: int
    tiles: Expr


def _lines(size: int, cut: bool, tiles: Expr, whole: Expr) -> tuple[_Line, ...]:
    """The points of one direction. The point at infinity contributes only to a tile's last output,
    which cut tiles lack.
    """
    if not cut:
        return (_Line(0, size + 2, tiles),)
    return _Line(0, size + 1, tiles), _Line(size + 1, 1, whole)


def _filter_transform(w: TensorSpec, u: TensorSpec, size: int) -> Space:
    channels = "in_channel", "out_channel"
    transform = _at_points(filter_nest(size, w, u, "kernel_group", channels), size)
    whole = Space(transform).split("in_channel").spread("in_channel", "rows")
    return _addressed(whole, w, u).once()


def _tile_transform(
    name: str, size: int, pixels: TensorSpec, tiles: TensorSpec, channels: Expr
) -> Space:
    """The transform of a block's tiles; the output transform runs per group of channels."""
    starts = {"tile_row": "block * block_rows", "image": "image_block * block_images"}
    outer = "group image_block block"
    if name == "output":
        outer, starts["channel"] = " ".join(_TOGETHER), "channel_group * group_channels"
    extents = {**_OUTER, "channel": channels, "tile_col": ceil_div(OUT_COLS, size)}
    transform = _at_points(tile_nest(name, size, pixels, tiles, outer, starts, extents), size)
    return _addressed(Space(transform).split("channel").spread("channel", "rows"), pixels, tiles)


def _at_points(transform: Nest, size: int) -> Nest:
    attributes: dict[str, Attribute] = {"output_tile": size, "points": POINTS[size]}
    return replace(transform, primitive=make_primitive(transform.primitive.name, attributes))


def _point_products(
    u: TensorSpec,
    v: TensorSpec,
    products: TensorSpec,
    size: int,
    number: int,
    rows: _Line,
    cols: _Line,
) -> Space:
    """The products of all points on one line of each direction."""
    point = f"({rows.first} + point_row) * {size + 2} + {cols.first} + point_col"
    tile = "tile_row, tile_col, image"
    nested = nest(
        f"product{number or ''}",
        "gemm",
        f"{' '.join(_TOGETHER)} point_row point_col channel tile_row tile_col image in_channel",
        {"m": "tile_row tile_col image", "n": "channel", "k": "in_channel"},
        products.on(f"{point}, {tile}, channel"),
        v.on(f"{point}, {tile}, in_channel"),
        u.on(f"group, {point}, in_channel, channel_group * group_channels + channel"),
        extents={
            **_OUTER,
            "in_channel": IN_CHANNELS,
            "point_row": rows.points,
            "point_col": cols.points,
            "tile_row": rows.tiles,
            "tile_col": cols.tiles,
        },
        turns=_TOGETHER,
    )
    space = (
        Space(nested)
        .split("tile_row", "channel", "in_channel")
        .spread("tile_row", "rows")
        .spread("channel", "columns")
        .spread("in_channel", "both")
        .vectorize("n")
    )
    return _addressed(space, u, v, products).limit(largest=65536, most=3)


def _addressed(space: Space, *tensors: TensorSpec) -> Space:
    """All tensors in place, axes whole in every call."""
    for one in tensors:
        space = space.stage(one, IN_PLACE)
    return space.limit(largest=65536, most=1)
