"""Ways to compute an operator as tensorised loop nests, each with the space of its schedules
(swATOP 3, 4.2).

Importing the package registers the seeds of every machine; those that packages bring under the
entry-point group `tilewright.seeds` are loaded when an operator is looked up.
"""

from tilewright.seeds import (
    conv2d_direct,
    conv2d_explicit,
    conv2d_implicit,
    conv2d_winograd,
    conv2d_winograd_blocks,
    gemm,
    gemm_prepacked,
)
from tilewright.seeds.space import Seed, Space, seed, seeds_for

__all__ = [
    "Seed",
    "Space",
    "conv2d_direct",
    "conv2d_explicit",
    "conv2d_implicit",
    "conv2d_winograd",
    "conv2d_winograd_blocks",
    "gemm",
    "gemm_prepacked",
    "seed",
    "seeds_for",
]
