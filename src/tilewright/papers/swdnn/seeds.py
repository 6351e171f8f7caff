"""The two hand-made loop plans of swDNN for convolution (swDNN IV-A), to be measured against.

Both are the implicit GEMM of one tap under a fixed loop order, with the input images and weights
double-buffered and the results stored and waited for. `swdnn_image` is Algorithm 1: blocks of 32
images and some output columns, images stored in fours so that a core's four images of one column
are one vector. `swdnn_batch` is Algorithm 2: all images at once, a loop over input columns inside a
block of output columns. Each comes as printed and with a transfer promoted: in Algorithm 1 the
input columns of a whole kernel row, in Algorithm 2 the weights of a whole kernel row. Block sizes
are factors: `papers.swdnn.fixed_plans` binds them by the paper's rule.

Where swDNN takes only multiples (of 32 images, of 4 output columns), columns are padded here as in
any other schedule; images are not: other batches have no such plan.
"""

from __future__ import annotations

from functools import cache

from tilewright.common.expr import Expr
from tilewright.ir.nodes import TensorKind
from tilewright.ops import Conv2d
from tilewright.seeds.conv2d import (
    BATCH,
    CHANNELS_OUTER,
    GROUPS,
    IN_CHANNELS,
    IN_COLS,
    IN_ROWS,
    OUT_CHANNELS,
    OUT_COLS,
    OUT_ROWS,
    images,
    results,
    weights,
)
from tilewright.seeds.conv2d_implicit import TAPS, Window, direct_nest
from tilewright.seeds.nest import TensorSpec, axis, tensor
from tilewright.seeds.space import Seed, Space, layout, seed

LANES = 4
"""Images of one vector, the fastest dimension of Algorithm 1's images."""

IMAGE_BLOCK = 32
"""b_B of Algorithm 1: a vector of images on each of the 8 cores that share them."""

BATCH_BLOCK = 128
"""Algorithm 2 gives each of 8 cores whole register blocks of 16 images."""

_WEIGHTS_ORDER = ("group", "kernel_rows", "kernel_cols", "out_channels", "in_channels")


@seed("conv2d", name="swdnn_image", baseline=True)
def image_size_aware(op: Conv2d) -> Seed | None:
    """swDNN Algorithm 1, for batches of whole blocks of 32 images."""
    window = (op.kernel, op.stride, op.dilation)
    return _image_size_aware(window) if op.batch % IMAGE_BLOCK == 0 else None


@seed("conv2d", name="swdnn_batch", baseline=True)
def batch_size_aware(op: Conv2d) -> Seed | None:
    """swDNN Algorithm 2, for batches of whole blocks of 128 images.

    An input column serves several output columns only where neighbouring taps are as far apart as
    neighbouring outputs.
    """
    window = (op.kernel, op.stride, op.dilation)
    meets = op.kernel[1] == 1 or op.stride[1] == op.dilation[1] == 1
    return _batch_size_aware(window) if op.batch % BATCH_BLOCK == 0 and meets else None


@cache
def _image_size_aware(window: Window) -> Seed:
    x = _in_fours("x", "input", IN_CHANNELS, IN_ROWS, IN_COLS)
    y = _in_fours("y", "output", OUT_CHANNELS, OUT_ROWS, OUT_COLS)
    w = weights(window[0])
    block, lane = axis("image_block", BATCH // LANES), axis("lane", LANES, inner=True)
    conv = direct_nest("image_size_aware", window, x, w, y, image_blocks=block, images=lane)
    group, out_row, out_col, out_channel, in_channel, kernel_row, kernel_col = (
        conv.axis(name) for name in ("group", "out_row", "out_col", "out_channel", *TAPS)
    )
    blocks = (group, out_channel, block, out_row, out_col)
    space = (
        Space(conv)
        .split(out_channel, block, in_channel, out_col)
        .fuse(out_col, into="n")
        .pad(out_col)
        .spread(out_channel, "rows")
        .spread(in_channel, "both")
        .spread(block, "columns")
        .reorder((*blocks, in_channel, kernel_row, kernel_col))
        .vectorize("n")
        .stage(x, None, kernel_col)
        .prefetch(w, x)
        .limit(largest=1024, most=10)
    )
    order = ("group", "channels", "rows", "image_blocks", "cols", "images")
    layouts = (layout(x, order), layout(y, order), layout(w, _WEIGHTS_ORDER))
    return Seed("swdnn_image", (x, w, y), (space,), layouts, ("x", "w"), "y")


def _in_fours(name: str, kind: TensorKind, channels: Expr, rows: Expr, cols: Expr) -> TensorSpec:
    """Images counted in vectors (a dimension of the operator's tensor cut in two)."""
    return tensor(
        name,
        kind,
        operand=0 if kind == "input" else None,
        group=GROUPS,
        channels=channels,
        rows=rows,
        cols=cols,
        image_blocks=BATCH // LANES,
        images=LANES,
    )


@cache
def _batch_size_aware(window: Window) -> Seed:
    x, w, y = images(), weights(window[0]), results()
    image = axis("image", BATCH)
    conv = direct_nest("batch_size_aware", window, x, w, y, batch=image)
    group, out_row, out_col, out_channel, in_channel, kernel_row, kernel_col = (
        conv.axis(name) for name in ("group", "out_row", "out_col", "out_channel", *TAPS)
    )
    blocks = (group, image, out_channel, out_col, out_row)
    space = (
        Space(conv)
        .split(out_channel, image, in_channel, out_col)
        .spread(out_channel, "rows")
        .spread(in_channel, "both")
        .spread(image, "columns")
        .skew(out_col, kernel_col, "in_col")
        .reorder((*blocks, in_channel, kernel_row, "in_col", kernel_col))
        .vectorize("n")
        .stage(y, in_channel)
        .stage(w, None, "in_col")
        .prefetch(w, x)
        .limit(largest=1024, most=10)
    )
    layouts = (layout(x, CHANNELS_OUTER), layout(y, CHANNELS_OUTER), layout(w, _WEIGHTS_ORDER))
    return Seed("swdnn_batch", (x, w, y), (space,), layouts, ("x", "w"), "y")
