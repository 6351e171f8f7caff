"""The two hand-made loop plans of swDNN for convolution (swDNN IV-A), as baselines.

Both are the implicit GEMM of one tap under a fixed loop order, with input images and weights
double-buffered and results stored and awaited. `swdnn_image` is Algorithm 1: blocks of 32 images
and some output columns, with images stored in fours so that a core's four images of one column are
one vector. `swdnn_batch` is Algorithm 2: all images at once, and a loop over input columns inside a
block of output columns. Each comes as printed and with a transfer promoted to a whole kernel row:
the input columns in Algorithm 1, the weights in Algorithm 2. Block sizes are factors, which
`papers.swdnn.fixed_plans` binds by the paper's rule.

Their spaces are the tuner's `implicit_fours` and `implicit_columns`, so the tuner has priced
whatever the rule selects. Where swDNN requires multiples (of 32 images, of 4 output columns),
columns are padded here as in any other schedule; images are not, so other batches have no plan.
"""

from __future__ import annotations

from tilewright.ops import Conv2d
from tilewright.seeds.convolution.implicit import images_by_columns, images_in_fours
from tilewright.seeds.space import Seed, seed


@seed("conv2d", name="swdnn_image", baseline=True)
def image_size_aware(op: Conv2d) -> Seed | None:
    """swDNN Algorithm 1, for batches that are multiples of 32."""
    return images_in_fours("swdnn_image", op)


@seed("conv2d", name="swdnn_batch", baseline=True)
def batch_size_aware(op: Conv2d) -> Seed | None:
    """swDNN Algorithm 2, for batches that are multiples of 128."""
    return images_by_columns("swdnn_batch", op)
