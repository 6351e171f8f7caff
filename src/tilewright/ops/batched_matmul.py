"""Batched matrix multiplication: one product for each element of a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tilewright.common.fixed_point import exact_product
from tilewright.ops.box import Box
from tilewright.ops.numerics import partial_types, require_products
from tilewright.ops.op import (
    CONTRACTIONS,
    Array,
    Divisible,
    Follows,
    Maker,
    Shape,
    in_double,
    in_own_type,
    require_positive,
    rounded,
    same_dimensions,
)
from tilewright.ops.piece import Divided, pieces_along


@dataclass(frozen=True)
class BatchedMatmul(Divisible):
    """batch x m x n results of batch x m x k by batch x k x n matrices; a transposed operand is
    stored with its last two dimensions the other way.
    """

    kind: ClassVar[str] = "batched_matmul"
    batch: int
    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_positive(self.kind, batch=self.batch, m=self.m, n=self.n, k=self.k)
        require_products(self.kind, self.numerics)

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """A and B."""
        a = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        b = (self.n, self.k) if self.transpose_b else (self.k, self.n)
        return (self.batch, *a), (self.batch, *b)

    @property
    def out_shape(self) -> Shape:
        """batch x m x n."""
        return (self.batch, self.m, self.n)

    @property
    def flops(self) -> int:
        """Two for each of the batch m n k multiply-accumulates."""
        return 2 * self.batch * self.m * self.n * self.k

    def divided(self, groups: int) -> Divided:
        """Divisions over the batch, rows or columns of the results, never over k."""
        return [
            (name, pieces_along(self, dimension, groups))
            for dimension, name in enumerate(("batch", "m", "n"))
        ]

    @property
    def terms(self) -> Shape:
        """k."""
        return (self.k,)

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """Rows and columns, and k."""
        a, b = ((1, None), (None, 0)), ((None, 0), (2, None))
        left, right = a[::-1] if self.transpose_a else a, b[::-1] if self.transpose_b else b
        return same_dimensions(3), ((0, None), *left), ((0, None), *right)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """Rows of A, columns of B."""
        (k,) = Box.whole(self.terms).sides if terms is None else terms.sides
        batch, m, n = result.sides
        a = (k, m) if self.transpose_a else (m, k)
        b = (n, k) if self.transpose_b else (k, n)
        return Box.of(batch, *a), Box.of(batch, *b)

    def part(self, result: Box, terms: Box | None = None) -> BatchedMatmul:
        """Products of smaller extents."""
        (k,) = (self.k,) if terms is None else terms.shape
        batch, m, n = result.shape
        dtype = self.dtype if k == self.k else partial_types(self.numerics)
        return replace(self, batch=batch, m=m, n=n, k=k, dtype=dtype)

    def describe(self) -> str:
        """The extents as batch x m x n x k, then which operands are transposed.

        >>> BatchedMatmul(8, 64, 32, 16, transpose_b=True).describe()
        'batched_matmul b8 m64 n32 k16 transpose_b'
        """
        words = [f"batched_matmul b{self.batch} m{self.m} n{self.n} k{self.k}"]
        words += ["transpose_a"] * self.transpose_a + ["transpose_b"] * self.transpose_b
        return " ".join(words)

    def reference(self, *operands: Array) -> Array:
        """The products in double precision; of integers, exact and rounded once."""
        if self.numerics.is_float:
            a, b = self._oriented(*in_double(self, operands))
            return rounded(self, a @ b)
        a, b = self._oriented(*in_own_type(self, operands))
        products = [exact_product(left, right) for left, right in zip(a, b, strict=True)]
        return self.numerics.write_back(np.stack(products))

    def _oriented(self, a: Array, b: Array) -> tuple[Array, Array]:
        return (
            a.transpose(0, 2, 1) if self.transpose_a else a,
            b.transpose(0, 2, 1) if self.transpose_b else b,
        )


def batched_matmul(
    batch: int,
    m: int,
    n: int,
    k: int,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: str = "f64",
) -> BatchedMatmul:
    """`batch` products m x n over k; raises ShapeError for extents below one."""
    return BatchedMatmul(batch, m, n, k, transpose_a, transpose_b, dtype)


CONTRACTIONS["batched_matmul"] = Maker(BatchedMatmul, batched_matmul)
