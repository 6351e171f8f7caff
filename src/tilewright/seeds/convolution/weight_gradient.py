"""Convolution whose kernel is an image: the gradient by the weights of another convolution.

The roles change: channels of the images count as images, images as channels, the pixels of the
result's gradient as the kernel, and the few pixels of the result as taps. A whole result tile stays
in the scratchpad while the sum runs over pixels and images. The inputs of a pixel's taps are
fetched together, or row by row of taps; several columns may form one sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from tilewright.common.expr import Expr, round_up
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import make_primitive
from tilewright.ops import Conv2d
from tilewright.seeds.convolution import tensors as conv
from tilewright.seeds.convolution.implicit import direct_nest
from tilewright.seeds.nest import Nest, TensorSpec, Transform, nest, tensor
from tilewright.seeds.space import Alternative, Seed, Space, layout, seed, tile_factor
from tilewright.seeds.steps import Fuse, Layout, Reorder, Split, Stage, Vectorize

LANES = 8
"""Fewest image channels per core: two vectors."""
_FEW_BLOCKS = 8
"""Most blocks of `LANES` channels that leave each core of a row at most one."""
_TAPS_OF_RESULT = conv.OUT_ROWS * conv.OUT_COLS

_LEAST_TAPS, _MOST_TAPS = 4, 49
"""Bounds on the result's pixels, which all stay in scratchpads. The gradient of a one-tap kernel is
a matrix product.
"""
_PIXELS = tuple(
    ("group", "rows", *order)
    for order in (("cols", "channels", "batch"), ("cols", "batch", "channels"))
)
_KERNEL = ("group", "kernel_rows", "kernel_cols")
_TILES = ("group", "out_channel", "image")
_SUMS = ("kernel_row", "kernel_col", "in_channel")
_TAPS = ("out_row", "out_col")


def _has_large_kernels(op: Conv2d) -> bool:
    taps = op.out_height * op.out_width
    return _LEAST_TAPS <= taps <= _MOST_TAPS and op.kernel[0] * op.kernel[1] >= 2 * taps


@conv.for_windows("weight_gradient", _has_large_kernels, staged=True)
def weight_gradient(window: conv.Window) -> Seed:
    """Weight gradient for kernels larger than the result."""
    x, w, y = conv.images(), conv.weights(window[0], "input"), conv.results()
    space = (
        Space(direct_nest("weight_gradient", window, x, w, y))
        .split("out_channel", "image", "in_channel")
        .choose(*_products())
        .spread("out_channel", "rows")
        .spread("image", "columns")
        .spread("in_channel", "both")
        .prefetch(w, x)
        .limit(largest=1024, most=5)
    )
    layouts = (
        layout(x, *_PIXELS),
        layout(
            w, (*_KERNEL, "in_channels", "out_channels"), (*_KERNEL, "out_channels", "in_channels")
        ),
        layout(y, *_PIXELS),
    )
    return Seed("weight_gradient", (x, w, y), (space,), layouts, ("x", "w"), "y")


def _products() -> Iterator[Alternative]:
    """One product per tap, which sums over images, or over kernel columns as well. Fetching a row
    of taps leaves room for longer sums; fetching all taps needs fewer transfers.
    """
    joined = Split("kernel_col", tile_factor("kernel_col")), Fuse("kernel_col", "k")
    order = Reorder((*_TILES, *_SUMS, *_TAPS))
    for columns, letter, loop in product(((), joined), "mn", _TAPS):
        yield *columns, order, Vectorize(letter), Stage("y", _SUMS[0]), Stage("x", loop)


@seed("conv2d", name="weight_gradient_taps", staged=True)
def weight_gradient_taps(op: Conv2d) -> Seed | None:
    """Weight gradient for image channels in blocks of eight: all taps of a core's block form one
    dimension of the product.
    """
    taps = op.out_height, op.out_width
    blocks = op.batch // LANES
    if not _has_large_kernels(op) or op.batch % LANES or not 1 <= blocks <= 2 * _FEW_BLOCKS:
        return None
    few = blocks <= _FEW_BLOCKS
    return _joined_taps((op.kernel, op.stride, op.dilation), taps, few)


@cache
def _joined_taps(window: conv.Window, taps: tuple[int, int], few_blocks: bool) -> Seed:
    """With `few_blocks`, taps are rounded up to even: one block's then fill whole registers."""
    rounded = round_up(_TAPS_OF_RESULT, 2) if few_blocks else _TAPS_OF_RESULT
    (x, y), w = conv.in_blocks(LANES), conv.weights(window[0], "input")
    group, channels, *_, blocks, lanes = y.dims
    dims = (group, channels, ("taps", _TAPS_OF_RESULT), blocks, lanes)
    of_taps = TensorSpec("y_taps", "output", dims, "y")
    space = (
        Space(_joined_nest(window, taps, rounded, (x, w, of_taps)))
        .split("out_channel", "in_channel", "kernel_col")
        .whole("image_block")
        .spread("out_channel", "rows")
        .spread("image_block", "columns")
        .spread("in_channel", "both")
        .reorder(("group", "out_channel", *_SUMS))
        .vectorize("n")
        .stage(of_taps, _SUMS[0])
        .prefetch(w, x)
        .limit(largest=1024, most=8)
    )
    return Seed(
        "weight_gradient_taps", (x, w, y, of_taps), (space,), _blocked_layouts(), ("x", "w"), "y"
    )


def _windows_of(window: conv.Window, taps: tuple[int, int]) -> Primitive:
    """Gathers the taps of each kernel column: taps `stride` apart, columns `dilation` apart."""
    _, stride, dilation = window
    sizes = {"rows": taps[0], "cols": taps[1], "stride": dilation[1]}
    return make_primitive("windows", {**sizes, "row_step": stride[0], "col_step": stride[1]})


def _joined_nest(
    window: conv.Window, taps: tuple[int, int], rounded: Expr, tensors: tuple[TensorSpec, ...]
) -> Nest:
    """Products over the images and kernel columns of a row of pixels; before each, its windows are
    gathered tap by tap.
    """
    x, w, y = tensors
    kernel, stride, dilation = window
    dims = f"channels=in_channels, cols={kernel[1]}, taps={rounded}"
    windows = tensor("windows", "scratch", dims, image_blocks=conv.BATCH // LANES, images=LANES)
    gathered = windows.on("in_channel, kernel_col, tap, image_block, lane")
    pixels = x.on(
        f"group, in_channel, kernel_row * {dilation[0]} + window_row, "
        f"kernel_col * {dilation[1]} + window_col, image_block, lane"
    )
    names = "kernel_col in_channel tap window_row window_col image_block lane"
    roles = tuple(zip(names.split(), "tpxrcqs", strict=True))
    reach = ((n - 1) * step + 1 for n, step in zip(taps, stride, strict=True))
    return nest(
        "weight_gradient_taps",
        "gemm",
        "group out_channel image_block lane tap "
        "kernel_row kernel_col in_channel window_row window_col",
        {"m": "out_channel", "n": "tap image_block lane", "k": "kernel_col in_channel"},
        y.on("group, out_channel, tap, image_block, lane"),
        w.on(conv.KERNEL),
        gathered,
        inner="tap window_row window_col lane",
        extents={"tap": rounded, **dict(zip(("window_row", "window_col"), reach, strict=True))},
        before=Transform(_windows_of(window, taps), roles, gathered, pixels),
    )


def _blocked_layouts() -> tuple[tuple[tuple[Layout, ...], ...], ...]:
    blocks = ("image_blocks", "images")
    orders = (
        ("image_blocks", "channels", "cols", "images"),
        ("image_blocks", "cols", "channels", "images"),
        ("cols", "channels", *blocks),
    )
    return (
        tuple((Layout("x", ("group", "rows", *order)),) for order in orders),
        tuple(
            (
                Layout("w", ("group", "kernel_rows", *kernels)),
                Layout("windows", (*sums, "taps", *blocks)),
            )
            for kernels, sums in (
                (("in_channels", "kernel_cols", "out_channels"), ("channels", "cols")),
                (("kernel_cols", "in_channels", "out_channels"), ("cols", "channels")),
            )
        ),
        (
            (
                Layout("y", ("group", "channels", "rows", "cols", *blocks)),
                Layout("y_taps", ("group", "channels", "taps", *blocks)),
            ),
        ),
    )
