"""The two hand-made loop plans of swDNN for convolution (swDNN IV-A), to be measured against.

Both are the implicit GEMM of one tap under a fixed loop order, with the input images and weights
double-buffered and the results stored and waited for. `swdnn_image` is Algorithm 1: blocks of 32
images and some output columns, images stored in fours so that a core's four images of one column
are one vector. `swdnn_batch` is Algorithm 2: all images at once, a loop over input columns inside a
block of output columns. Each comes as printed and with a transfer promoted: in Algorithm 1 the
input columns of a whole kernel row, in Algorithm 2 the weights of a whole kernel row. Block sizes
are factors: `papers.swdnn.fixed_plans` binds them by the paper's rule.

Their spaces are the tuner's `implicit_fours` and `implicit_columns`: whatever the rule takes, the
tuner has priced.

Where swDNN takes only multiples (of 32 images, of 4 output columns), columns are padded here as in
any other schedule; images are not: other batches have no such plan.
"""

from __future__ import annotations

from tilewright.ops import Conv2d
from tilewright.seeds.convolution.implicit import images_by_columns, images_in_fours
from tilewright.seeds.space import Seed, seed


@seed("conv2d", name="swdnn_image", baseline=True)
def image_size_aware(op: Conv2d) -> Seed | None:
    """swDNN Algorithm 1, for batches of whole blocks of 32 images."""
    return images_in_fours("swdnn_image", op)


@seed("conv2d", name="swdnn_batch", baseline=True)
def batch_size_aware(op: Conv2d) -> Seed | None:
    """swDNN Algorithm 2, for batches of whole blocks of 128 images."""
    return images_by_columns("swdnn_batch", op)
