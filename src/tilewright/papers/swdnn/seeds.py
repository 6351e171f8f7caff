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

from tilewright.ops import Conv2d
from tilewright.seeds.conv2d import BATCH, CHANNELS_OUTER, images, results, weights
from tilewright.seeds.conv2d_fours import IMAGE_BLOCK, WEIGHTS_ORDER, images_in_fours
from tilewright.seeds.conv2d_implicit import TAPS, Window, direct_nest
from tilewright.seeds.nest import axis
from tilewright.seeds.space import Seed, Space, layout, seed

BATCH_BLOCK = 128
"""Algorithm 2 gives each of 8 cores whole register blocks of 16 images."""


@seed("conv2d", name="swdnn_image", baseline=True)
def image_size_aware(op: Conv2d) -> Seed | None:
    """swDNN Algorithm 1, for batches of whole blocks of 32 images."""
    window = (op.kernel, op.stride, op.dilation)
    if op.batch % IMAGE_BLOCK:
        return None
    return images_in_fours("swdnn_image", window, (None, "kernel_col"), most=10)


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
    layouts = (layout(x, CHANNELS_OUTER), layout(y, CHANNELS_OUTER), layout(w, WEIGHTS_ORDER))
    return Seed("swdnn_batch", (x, w, y), (space,), layouts, ("x", "w"), "y")
