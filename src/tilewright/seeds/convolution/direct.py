"""Convolution on operands in place, for machines whose cores address main memory through caches.

Images are channels-last. For one row of pixels (n) and some output channels (m, the vectors), the
products of all kernel taps and input channels (k) add into one C: a chain (`ir.chains`) whose sums
stay in registers. A 1x1 kernel without border or stride is one matrix product over all pixels. Only
the constant weights are copied: packed once, ahead of all calls.
"""

from __future__ import annotations

from functools import cache

from tilewright.ops import Conv2d
from tilewright.seeds.convolution import tensors as conv
from tilewright.seeds.gemm import gemm_space
from tilewright.seeds.nest import Nest, TensorSpec, nest, tensor
from tilewright.seeds.space import Seed, Space, seed, tile_factor
from tilewright.seeds.steps import Fuse, Layout, Reorder, Split, Spread, Step

CHANNELS_LAST = ("group", "batch", "rows", "cols", "channels")
"""Storage order of images with the channels of a pixel contiguous, image by image."""
_WEIGHTS = ("group", "kernel_rows", "kernel_cols", "in_channels", "out_channels")
_LAYOUTS = (
    ((Layout("x", CHANNELS_LAST), Layout("y", CHANNELS_LAST)),),
    ((Layout("w", _WEIGHTS),),),
)
_TAPS = ("kernel_row", "kernel_col")


def is_product(op: Conv2d) -> bool:
    """True if the convolution is one matrix product over the pixels of all images."""
    return (op.kernel, op.stride) == ((1, 1), (1, 1)) and not any(op.padding)


@seed("conv2d", name="direct", addressed=True)
def direct(op: Conv2d) -> Seed | None:
    """Any kernel; 1x1 kernels that are a plain matrix product are `pointwise`."""
    window = op.kernel, op.stride, op.dilation
    return None if is_product(op) else _direct(window, op.padding)


@cache
def _direct(window: conv.Window, padding: tuple[int, int, int, int]) -> Seed:
    x, w, y = conv.images(padding), conv.weights(window[0]), conv.results()
    space = (
        Space(_by_row(window, x, w, y))
        .split("out_channel", "in_channel")
        .spread("out_channel", "rows")
        .spread("in_channel", "both")
        .choose(*_pixels())
        .vectorize("m")
        .stage(x, None, "out_row", "out_channel")
        .in_place(y, w, x)
        .limit(largest=1024, most=8)
    )
    return Seed("direct", (x, w, y), (space,), _LAYOUTS, ("x", "w"), "y")


@seed("conv2d", name="pointwise", addressed=True)
def pointwise(op: Conv2d) -> Seed | None:
    """A 1x1 kernel as one matrix product over the pixels of all images."""
    return _pointwise() if is_product(op) else None


def _by_row(window: conv.Window, x: TensorSpec, w: TensorSpec, y: TensorSpec) -> Nest:
    order = "group image out_channel in_channel out_row out_col kernel_row kernel_col"
    roles = {"m": "out_channel", "n": "out_col", "k": "in_channel"}
    uses = y.on(conv.pixel()), w.on(conv.KERNEL), x.on(conv.under(window))
    return nest("direct", "gemm", order, roles, *uses)


def _pixels() -> tuple[tuple[Step, ...], ...]:
    """Loop orders around one product, whose pixels come from one row or from several."""
    orders = (
        ("out_channel", "in_channel", "out_row"),
        ("in_channel", "out_channel", "out_row"),
        ("in_channel", "out_row", "out_channel"),
        ("out_row", "out_channel", "in_channel"),
    )
    reorders = [Reorder(("group", "image", *order, *_TAPS)) for order in orders]
    rows = (
        Split("out_row", tile_factor("out_row")),
        Fuse("out_row", "n"),
        Spread("out_row", "columns"),
    )
    return (*((order,) for order in reorders), *((*rows, order) for order in reorders))


@cache
def _pointwise() -> Seed:
    product, tensors = pixel_product()
    space = gemm_space(product, "out_channel", "pixel", "in_channel")
    return Seed("pointwise", tensors, (space,), _LAYOUTS, ("x", "w"), "y")


def pixel_product() -> tuple[Nest, tuple[TensorSpec, ...]]:
    """The product of all pixels with the weights of a 1x1 kernel, and its tensors: images, weights,
    results, then images and results viewed as rows of pixels.
    """
    x, w, y = conv.images(), conv.weights((1, 1)), conv.results()
    dims = "group=groups, pixels=batch * out_rows * out_cols, channels="
    x_pixels = tensor("x_pixels", "input", f"{dims}in_channels", storage="x", operand=0)
    y_pixels = tensor("y_pixels", "output", f"{dims}out_channels", storage="y")
    product = nest(
        "pointwise",
        "gemm",
        "group out_channel pixel in_channel",
        {"m": "out_channel", "n": "pixel", "k": "in_channel"},
        y_pixels.on("group, pixel, out_channel"),
        w.on("group, out_channel, in_channel, 0, 0"),
        x_pixels.on("group, pixel, in_channel"),
    )
    return product, (x, w, y, x_pixels, y_pixels)
