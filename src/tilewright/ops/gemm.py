"""General matrix multiplication: alpha op(A) op(B) + beta C."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from tilewright.common.errors import ShapeError
from tilewright.common.fixed_point import exact_product
from tilewright.ops.box import Box
from tilewright.ops.numerics import Numerics, partial_types, require_products
from tilewright.ops.op import (
    CONTRACTIONS,
    Array,
    Divisible,
    Follows,
    Maker,
    Shape,
    for_sums,
    in_double,
    in_own_type,
    require_positive,
    rounded,
    same_dimensions,
)
from tilewright.ops.piece import Divided, pieces_along

_FACTORS = ("a", "b")


@dataclass(frozen=True)
class Gemm(Divisible):
    """m x n result of an m x k by a k x n matrix; a transposed operand is stored the other way.

    C is an operand only where `beta` is not zero. Products of integers are added to it modulo the
    bits of its type.
    """

    kind: ClassVar[str] = "gemm"
    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    alpha: float = 1.0
    beta: float = 0.0
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_positive(self.kind, m=self.m, n=self.n, k=self.k)
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not math.isfinite(value):
                raise ShapeError(f"gemm: {name} must be finite, found {value}")
        if not self.numerics.is_float:
            self._require_exact()

    def _require_exact(self) -> None:
        """Sums that start from C wrap as C does: they need not hold each product."""
        numerics = self.numerics
        if self.alpha != 1 or self.beta not in (0, 1):
            raise ShapeError(
                f"gemm: products of {self.dtype} take alpha 1 and beta 0 or 1, "
                f"found {self.alpha:g} and {self.beta:g}",
                fix="scale and add with operators of their own",
            )
        if self.beta == 0:
            require_products(self.kind, numerics)
        elif numerics.requantises or not all(k.kind == "integer" for k in numerics.operands):
            raise ShapeError(
                f"gemm: products of {self.dtype} are not added to C",
                fix="with beta 1 give sums and result one type of integers, as i8,i16:i16",
            )

    @property
    def numerics(self) -> Numerics:
        """Types of A and B as named; C has the result's type."""
        found = Numerics.parse(self.dtype, len(_FACTORS))
        added = (found.result,) * (len(self.input_shapes) - len(_FACTORS))
        return replace(found, operands=(*found.operands, *added))

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """A, B and, where beta is not zero, C."""
        a = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        b = (self.n, self.k) if self.transpose_b else (self.k, self.n)
        return (a, b) if self.beta == 0 else (a, b, (self.m, self.n))

    @property
    def out_shape(self) -> Shape:
        """m x n."""
        return (self.m, self.n)

    @property
    def flops(self) -> int:
        """Two for each of the m n k multiply-accumulates."""
        return 2 * self.m * self.n * self.k

    def divided(self, groups: int) -> Divided:
        """Divisions over rows or columns of the result, never over k."""
        return [("m", pieces_along(self, 0, groups)), ("n", pieces_along(self, 1, groups))]

    @property
    def terms(self) -> Shape:
        """k."""
        return (self.k,)

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """Rows and columns, and k."""
        a, b, c = ((0, None), (None, 0)), ((None, 0), (1, None)), ((0, 0), (1, 0))
        oriented = (a[::-1] if self.transpose_a else a, b[::-1] if self.transpose_b else b, c)
        return same_dimensions(2), *oriented[: len(self.input_shapes)]

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """Rows of A, columns of B; C where the terms have the first."""
        (k,) = Box.whole(self.terms).sides if terms is None else terms.sides
        m, n = result.sides
        a = Box.of(k, m) if self.transpose_a else Box.of(m, k)
        b = Box.of(n, k) if self.transpose_b else Box.of(k, n)
        c = result if k[0] == 0 else Box(result.start, result.start)
        return (a, b) if self.beta == 0 else (a, b, c)

    def part(self, result: Box, terms: Box | None = None) -> Gemm:
        """The product of a region; only the part with the first terms adds C."""
        (k,) = Box.whole(self.terms).sides if terms is None else terms.sides
        m, n = result.shape
        beta = self.beta if k[0] == 0 else 0.0
        types = Numerics.parse(self.dtype, len(_FACTORS))
        dtype = self.dtype if k == (0, self.k) else partial_types(types)
        return replace(self, m=m, n=n, k=k[1] - k[0], beta=beta, dtype=dtype)

    def with_magnitudes(self) -> Gemm:
        """With positive alpha and beta."""
        return replace(self, alpha=abs(self.alpha), beta=abs(self.beta))

    def describe(self) -> str:
        """Extents as m x n x k, then all differences from the plain product.

        >>> Gemm(64, 32, 16, transpose_b=True).describe()
        'gemm m64 n32 k16 transpose_b'
        """
        words = [f"gemm m{self.m} n{self.n} k{self.k}"]
        words += ["transpose_a"] * self.transpose_a + ["transpose_b"] * self.transpose_b
        words += [f"alpha {self.alpha:g}"] * (self.alpha != 1)
        words += [f"beta {self.beta:g}"] * (self.beta != 0)
        return " ".join(words)

    def reference(self, *operands: Array) -> Array:
        """The product in double precision, by BLAS or with the same result; of integers, exact and
        rounded once.
        """
        if not self.numerics.is_float:
            return self._exact(*in_own_type(self, operands))
        plain = self.alpha == 1 and len(operands) == 2
        a, b, *rest = for_sums(self, operands, self.k) if plain else in_double(self, operands)
        product = (a.T if self.transpose_a else a) @ (b.T if self.transpose_b else b)
        if self.alpha != 1:
            product *= self.alpha
        for c in rest:
            product += self.beta * c
        return rounded(self, product)

    def _exact(self, a: Array, b: Array, *added: Array) -> Array:
        left, right = a.T if self.transpose_a else a, b.T if self.transpose_b else b
        product = exact_product(left, right)
        return self.numerics.write_back(sum((c.astype(product.dtype) for c in added), product))


def gemm(
    m: int,
    n: int,
    k: int,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    dtype: str = "f64",
) -> Gemm:
    """The m x n product over k; raises ShapeError for extents below one."""
    return Gemm(m, n, k, transpose_a, transpose_b, alpha, beta, dtype)


CONTRACTIONS["gemm"] = Maker(Gemm, gemm)
