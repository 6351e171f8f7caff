"""The parameter lists of swATOP: Listing 1 (convolutions) and Listing 2 (matrix products).

Listing 1 as printed yields 180 cases with its test Ni >= No and 300 without; the paper reports 225.
Two readings yield 225: 15 channel pairs x 5 sizes x 3 batches, but the listing has four sizes, and
25 pairs x 3 sizes x 3 batches. The second is used, without the size 256: at batch 128 and 512
channels, images of 256 x 256 pixels are 34 GB in and 34 GB out in double precision, more than the
machine's 32 GB, so no such case can have run, while every case up to 128 fits. (In single precision
they are 17 GB each, which leaves no room for the weights.) Listing 2 as printed yields the 216 and
343 cases that Table 2 counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from tilewright.ops import Conv2d, Gemm, conv2d, gemm

BATCHES = (1, 32, 128)
CHANNELS = (64, 128, 256, 384, 512)
SIZES = (32, 64, 128)
PRINTED_SIZES = (*SIZES, 256)
UNALIGNED = (200, 500, 1000, 2000, 4000, 8000)
ALIGNED = (256, 512, 768, 1024, 2048, 4096, 8192)


def listing1() -> list[Conv2d]:
    """The 225 cases that the paper counts, 75 per batch."""
    return list(_convolutions(product(BATCHES, CHANNELS, CHANNELS, SIZES)))


def listing1_as_printed() -> list[Conv2d]:
    """The 180 cases that the listing yields: at least as many input as output channels."""
    cases = product(BATCHES, CHANNELS, CHANNELS, PRINTED_SIZES)
    return list(_convolutions(case for case in cases if case[1] >= case[2]))


def _convolutions(cases: Iterable[tuple[int, int, int, int]]) -> Iterable[Conv2d]:
    """3 x 3 convolutions with a border, of (batch, input channels, output channels, size)."""
    for batch, in_channels, out_channels, size in cases:
        yield conv2d(
            batch=batch,
            in_channels=in_channels,
            out_channels=out_channels,
            height=size,
            width=size,
            kernel=3,
            padding=1,
        )


def listing2_unaligned() -> list[Gemm]:
    """216 matrix products with extents that register blocks do not divide evenly over the mesh."""
    return [gemm(m, n, k) for m, n, k in product(UNALIGNED, repeat=3)]


def listing2_aligned() -> list[Gemm]:
    """343 matrix products without boundaries."""
    return [gemm(m, n, k) for m, n, k in product(ALIGNED, repeat=3)]
