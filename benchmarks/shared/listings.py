"""The parameter lists of swATOP: Listing 1 (convolutions) and the unaligned half of Listing 2.

Listing 1 as printed gives 180 cases with its test Ni >= No and 300 without, the paper reports 225.
Two readings give 225: 15 channel pairs x 5 sizes x 3 batches, but the listing has four sizes, and
25 pairs x 3 sizes x 3 batches. The second is taken, without the size 256: the images of batch 128
with 512 channels of 256 x 256 pixels are 34 GB in and 34 GB out in double precision, more than the
32 GB of the machine, so no such case can have been run, while every case up to 128 fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import gcd
from typing import TypeVar

from tilewright.ops import Conv2d, Gemm, conv2d, gemm

T = TypeVar("T")

BATCHES = (1, 32, 128)
CHANNELS = (64, 128, 256, 384, 512)
SIZES = (32, 64, 128)
UNALIGNED = (200, 500, 1000, 2000, 4000, 8000)


def listing1(batches: tuple[int, ...] = BATCHES) -> list[Conv2d]:
    """225 convolutions, 75 per batch: 3 x 3 kernels, output as large as the input."""
    return [
        conv2d(
            batch=batch,
            in_channels=in_channels,
            out_channels=out_channels,
            height=size,
            width=size,
            kernel=3,
            padding=1,
        )
        for batch, in_channels, out_channels, size in product(batches, CHANNELS, CHANNELS, SIZES)
    ]


def listing2_unaligned() -> list[Gemm]:
    """216 matrix products of extents that no register block divides evenly over the mesh."""
    return [gemm(m, n, k) for m, n, k in product(UNALIGNED, repeat=3)]


def spread_sample(cases: Sequence[T], count: int | None) -> list[T]:
    """`count` cases spread over the list, its order kept; a larger sample contains a smaller one.

    Steps of the golden section, made prime to the length, so that no period of the list is met.
    """
    total = len(cases)
    step = next(s for s in range(round(0.618 * total), 2 * total) if gcd(s, total) == 1)
    taken = sorted(i * step % total for i in range(min(total, count or total)))
    return [cases[i] for i in taken]
