"""Matrix multiplication as libraries do it, as a baseline: whole operands are padded.

Classic boundary handling (swATOP 4.5.3, 5.3.2): allocate matrices of whole multiples, copy the
operands to them, multiply, crop the result. `padded` pads all three matrices and tunes the product.
`library` models a hand-made library like xMath (swATOP 5.1.2): one schedule for all sizes, chosen
for large squares, and copies only of matrices whose extents are no multiples.

The library's schedule: blocks of 256 x 256 x 256, evened out, all three double-buffered, k
innermost. On the machine sw26010 these are the best blocks of whole multiples that fit: 2.79
Tflop/s of the chip at 8192 x 8192 x 8192, 94 % of the cores' peak (DGEMM of xMath: up to 95 %; the
tuned schedule: 2.80).

Multiples: according to swATOP, all its 216 unaligned cases need padding in all three dimensions.
8000 = 64 x 125 is one of the extents, so the multiples are at least 128 in each: of n and k for one
core group, and of m 32, the register block, for each of four that share it.
"""

from __future__ import annotations

from functools import cache

from tilewright.common.expr import Expr, round_up
from tilewright.ops import Gemm
from tilewright.seeds.gemm import K, M, N, gemm_space, product_nest
from tilewright.seeds.nest import Nest, TensorSpec, nest, tensor
from tilewright.seeds.space import Seed, Space, layout, seed

Extents = tuple[int, int, int]

_PADDING: Extents = (128, 128, 128)
"""The largest granule of the primitive, so that any vectorisation fits."""

LIBRARY_PADDING: Extents = (32, 128, 128)
"""The library's multiples of m, n and k on one core group."""

LIBRARY_BLOCK = 256


Uneven = tuple[bool, bool, bool]
"""True for each of m, n and k that is no whole multiple."""


@seed("gemm", name="padded", baseline=True)
def padded_gemm(op: Gemm) -> Seed | None:
    """Copy all operands to padded ones, multiply by the best schedule, crop."""
    if (op.alpha, op.beta) != (1.0, 0.0):
        return None
    return _padded("padded", op.transpose_a, op.transpose_b, _PADDING, (True, True, True))


@seed("gemm", name="library", baseline=True)
def library_gemm(op: Gemm) -> Seed | None:
    """Copy the operands whose extents are no multiples, multiply by the one schedule, crop."""
    if (op.alpha, op.beta) != (1.0, 0.0):
        return None
    m, n, k = LIBRARY_PADDING
    uneven = (op.m % m > 0, op.n % n > 0, op.k % k > 0)
    return _padded("library", op.transpose_a, op.transpose_b, LIBRARY_PADDING, uneven)


@cache
def _padded(
    name: str, transpose_a: bool, transpose_b: bool, padding: Extents, uneven: Uneven
) -> Seed:
    pairs = zip((M, N, K), padding, uneven, strict=True)
    m, n, k = (round_up(e, unit) if pad else e for e, unit, pad in pairs)
    a = tensor("a", "input", operand=0, rows=M, depth=K)
    b = tensor("b", "input", operand=1, depth=K, cols=N)
    c = tensor("c", "output", rows=M, cols=N)
    wide_a, wide_b = a, b
    if uneven[0] or uneven[2]:
        wide_a = tensor("padded_a", "scratch", operand=0, rows=m, depth=k)
    if uneven[2] or uneven[1]:
        wide_b = tensor("padded_b", "scratch", operand=1, depth=k, cols=n)
    wide_c = tensor("padded_c", "scratch", rows=m, cols=n) if uneven[0] or uneven[1] else c
    product = product_nest("product", wide_c, wide_a, wide_b)
    spaces = (
        *([_copy_space("pad_a", a, wide_a, m, k)] if wide_a != a else []),
        *([_copy_space("pad_b", b, wide_b, k, n)] if wide_b != b else []),
        gemm_space(product, "row", "col", "depth") if name == "padded" else _one_schedule(product),
        *([_copy_space("crop_c", wide_c, c, M, N)] if wide_c != c else []),
    )
    order_a = ("depth", "rows") if transpose_a else ("rows", "depth")
    order_b = ("cols", "depth") if transpose_b else ("depth", "cols")
    own_a, own_b = dict.fromkeys((a, wide_a)), dict.fromkeys((b, wide_b))
    fixed = (*(layout(t, order_a) for t in own_a), *(layout(t, order_b) for t in own_b))
    return Seed(name, (*own_a, *own_b, *dict.fromkeys((c, wide_c))), spaces, fixed, ("a", "b"), "c")


def _one_schedule(product: Nest) -> Space:
    """The library's product: one loop order, one block size."""
    return (
        Space(product)
        .split("row", "col", "depth")
        .spread("row", "rows")
        .spread("col", "columns")
        .spread("depth", "both")
        .reorder(("row", "col", "depth"))
        .vectorize("n")
        .prefetch(*(use.tensor for use in product.uses))
        .limit(largest=LIBRARY_BLOCK, most=1)
    )


def _copy_space(
    name: str, source: TensorSpec, target: TensorSpec, outer: Expr, inner: Expr
) -> Space:
    """Copy an outer x inner matrix into one of another size: zeros beyond the source."""
    copy = nest(
        name,
        "copy",
        "first second",
        {"p": "first", "q": "second"},
        target.on("first, second"),
        source.on("first, second"),
        extents={"first": outer, "second": inner},
    )
    return (
        Space(copy)
        .split("first", "second")
        .spread("first", "rows")
        .spread("second", "columns")
        .reorder(("first", "second"))
        .prefetch(source, target)
        .limit(largest=1024, most=6)
    )
