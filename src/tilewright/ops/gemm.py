"""Matrix products: alpha op(A) op(B) + beta C, single or batched."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import ClassVar, TypeVar

from tilewright.common.errors import ShapeError
from tilewright.ops.access import straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Computed, Definition, one
from tilewright.ops.definitions import Named
from tilewright.ops.numerics import Numerics, partial_types, require_products
from tilewright.ops.op import CONTRACTIONS, Follows, Maker, Shape, require_positive

_FACTORS = ("a", "b")
_WIDEST = "i64"


@dataclass(frozen=True)
class Gemm(Named):
    """m x n product of an m x k by a k x n matrix; a transposed operand is stored transposed.

    C is an operand only if `beta` is not zero. Integer products are added to it modulo the bits of
    its type.
    """

    kind: ClassVar[str] = "gemm"
    divides: ClassVar[tuple[str, ...]] = ("m", "n")
    m: int
    n: int
    k: int
    _: KW_ONLY
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
        """Require sums that represent each product; sums that start from C wrap and need not."""
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
        """Types of A and B from `dtype`; C has the result's type."""
        found = Numerics.parse(self.dtype, len(_FACTORS))
        added = (found.result,) * (len(self.input_shapes) - len(_FACTORS))
        return replace(found, operands=(*found.operands, *added))

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """A, B and, where beta is not zero, C."""
        a, b = _stored(self)
        return (a, b) if self.beta == 0 else (a, b, (self.m, self.n))

    @property
    def out_shape(self) -> Shape:
        """m x n."""
        return (self.m, self.n)

    @property
    def flops(self) -> int:
        """Operations of the products; scaling and adding C are negligible."""
        return self.definition.flops

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """The products, then their sum with C, modulo the bits of its type for integers."""
        extents, numerics = (self.m, self.n, self.k), self.numerics
        if (self.alpha, self.beta) == (1.0, 0.0):
            return one(_product(self, extents, self.dtype))
        kind = last = numerics.sums.name
        if not numerics.is_float:
            a, b, c = numerics.operands
            kind, last = f"{a},{b}:{_WIDEST}", f"{_WIDEST},{c}:{_WIDEST}:{numerics.result}"
        product = _product(self, extents, kind)
        result, added = product.result, f" + {self.beta!r} * x1" if self.beta else ""
        places = (result, result) if self.beta else (result,)
        body = f"{self.alpha!r} * x0{added}" if numerics.is_float else "x0 + x1"
        scaled = Definition(self.out_shape, result, places, body, None, "x0", last)
        return (*one(product), *one(scaled, *((3, 2) if self.beta else (2,))))

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """As the product's; C follows the result, and the terms, since the first ones add it."""
        found = self.definition.follows
        return found if found is None or self.beta == 0 else (*found, ((0, 0), (1, 0)))

    @property
    def unchanged(self) -> frozenset[tuple[int, int]]:
        return self.definition.unchanged

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """Rows of A, columns of B, and C if the first term is included."""
        factors = self.definition.needed(result, terms)
        first = terms is None or terms.start == (0,)
        added = (result if first else Box(result.start, result.start),)
        return factors if self.beta == 0 else factors + added

    def part(self, result: Box, terms: Box | None = None) -> Gemm:
        """The product of a region; only the part with the first term adds C."""
        first = terms is None or terms.start == (0,)
        return _part(self, result, terms, beta=self.beta if first else 0.0)

    def with_magnitudes(self) -> Gemm:
        return replace(self, alpha=abs(self.alpha), beta=abs(self.beta))

    @property
    def matrix_product(self) -> Gemm:
        return self

    def describe(self) -> str:
        """Extents as m x n x k, then all differences from the plain product.

        >>> Gemm(64, 32, 16, transpose_b=True).describe()
        'gemm m64 n32 k16 transpose_b'
        """
        words = [_product_text(self, "gemm")]
        words += [f"alpha {self.alpha:g}"] * (self.alpha != 1)
        words += [f"beta {self.beta:g}"] * (self.beta != 0)
        return " ".join(words)


@dataclass(frozen=True)
class BatchedMatmul(Named):
    """batch x m x n products of batch x m x k by batch x k x n matrices; a transposed operand is
    stored with its last two dimensions swapped.
    """

    kind: ClassVar[str] = "batched_matmul"
    divides: ClassVar[tuple[str, ...]] = ("batch", "m", "n")
    batch: int
    m: int
    n: int
    k: int
    _: KW_ONLY
    transpose_a: bool = False
    transpose_b: bool = False
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_positive(self.kind, batch=self.batch, m=self.m, n=self.n, k=self.k)
        require_products(self.kind, self.numerics)

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """A and B."""
        a, b = _stored(self)
        return (self.batch, *a), (self.batch, *b)

    @property
    def out_shape(self) -> Shape:
        """batch x m x n."""
        return (self.batch, self.m, self.n)

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        return one(_product(self, (self.batch, self.m, self.n, self.k), self.dtype))

    def part(self, result: Box, terms: Box | None = None) -> BatchedMatmul:
        return _part(self, result, terms, batch=result.shape[0])

    def describe(self) -> str:
        """The extents as batch x m x n x k, then which operands are transposed.

        >>> BatchedMatmul(8, 64, 32, 16, transpose_b=True).describe()
        'batched_matmul b8 m64 n32 k16 transpose_b'
        """
        return _product_text(self, f"batched_matmul b{self.batch}")


def _stored(op: Gemm | BatchedMatmul) -> tuple[Shape, Shape]:
    """The stored shapes of both matrices."""
    a, b = (op.m, op.k), (op.k, op.n)
    return a[::-1] if op.transpose_a else a, b[::-1] if op.transpose_b else b


def _product(op: Gemm | BatchedMatmul, extents: Shape, dtype: str) -> Definition:
    """The definition of a product over the axes (batch,) m, n, k."""
    *batch, m, n, k = range(len(extents))
    a, b = (k, m) if op.transpose_a else (m, k), (n, k) if op.transpose_b else (k, n)
    factors = straight(op.input_shapes[0], (*batch, *a)), straight(op.input_shapes[1], (*batch, *b))
    names = (*"b" * len(batch), "m", "n", "k")
    result = straight(op.out_shape)
    return Definition(extents, result, factors, "x0 * x1", "sum", "x0", dtype, names)


_Product = TypeVar("_Product", "Gemm", "BatchedMatmul")


def _part(op: _Product, result: Box, terms: Box | None, **more: float) -> _Product:
    """The product of a region, over the given terms."""
    *_, m, n = result.shape
    (k,) = (op.k,) if terms is None else terms.shape
    types = Numerics.parse(op.dtype, len(_FACTORS))
    dtype = op.dtype if k == op.k else partial_types(types)
    return replace(op, m=m, n=n, k=k, dtype=dtype, **more)  # type: ignore[arg-type]  # names


def _product_text(op: Gemm | BatchedMatmul, first: str) -> str:
    words = [f"{first} m{op.m} n{op.n} k{op.k}"]
    words += ["transpose_a"] * op.transpose_a + ["transpose_b"] * op.transpose_b
    return " ".join(words)


gemm = Gemm
"""The m x n product over k; raises ShapeError for extents below one."""
CONTRACTIONS["gemm"] = Maker(Gemm, gemm)


batched_matmul = BatchedMatmul
"""`batch` products m x n over k; raises ShapeError for extents below one."""
CONTRACTIONS["batched_matmul"] = Maker(BatchedMatmul, batched_matmul)
