"""Interface of all operators: shapes of operands and result, work, NumPy reference.

In: extents. Out: a frozen dataclass per operator, which refuses contradicting extents on
construction. `reference` defines the result that all generated code and simulations are judged by.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilewright.common.dtypes import converted
from tilewright.common.errors import ShapeError
from tilewright.common.fixed_point import EXACT_IN_SINGLE, Integers
from tilewright.ops.box import Box
from tilewright.ops.numerics import Numerics

if TYPE_CHECKING:
    from tilewright.ops.conv2d import Conv2d
    from tilewright.ops.definition import Computed
    from tilewright.ops.elementwise import Bias
    from tilewright.ops.gathering import Pool2d
    from tilewright.ops.gemm import Gemm
    from tilewright.ops.mapping import InMemory
    from tilewright.ops.normalize import BatchNorm
    from tilewright.ops.piece import Divided

Shape = tuple[int, ...]
Array = NDArray[Any]
Arrays = Mapping[str, Array]
"""Arrays by name."""
Floats = NDArray[np.float64]
IntOrPair = int | tuple[int, int]
Pair = tuple[int | None, int | None]
"""A dimension of the result, and one of the terms; None for neither."""
Follows = tuple[Pair, ...]
"""For each dimension of a region, the dimension of the result and the term that determine it."""


class Op:
    """An operator with all its extents; images are batch x channels x height x width. By default
    its types are parsed from `dtype`, it equals no other named operator, and it is not divided.
    """

    is_named: ClassVar[bool] = True
    """False for a user's own definitions. A named operator's result has the dimensions of its first
    operand, or of a product.
    """
    reshapes: ClassVar[bool] = False
    """True if the operator only changes the shape and keeps the order of elements."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The operator's short name, such as `conv2d`."""

    @property
    @abstractmethod
    def dtype(self) -> str:
        """The element types in short: one name for all, or the text of `numerics`."""

    if TYPE_CHECKING:  # some operators have fields of these names, which a property would hide

        @property
        @abstractmethod
        def input_shapes(self) -> tuple[Shape, ...]:
            """The shape of each operand, weights included, in the order `reference` takes them."""

        @property
        @abstractmethod
        def out_shape(self) -> Shape:
            """The shape of the result."""

    @property
    @abstractmethod
    def flops(self) -> int:
        """Floating-point operations; a multiply-accumulate counts as two."""

    @abstractmethod
    def describe(self) -> str:
        """One short line for tables and messages."""

    @abstractmethod
    def reference(self, *operands: Array) -> Array:
        """The result for `operands`: floats computed in double precision and rounded once,
        integers exactly and rounded once (`Numerics`).
        """

    @property
    def numerics(self) -> Numerics:
        """The element types of operands, sums and result."""
        return Numerics.parse(self.dtype, len(self.input_shapes))

    @property
    def operand_dtypes(self) -> tuple[str, ...]:
        """The name of the element type of each operand."""
        return tuple(kind.name for kind in self.numerics.operands)

    @property
    def out_dtype(self) -> str:
        """The name of the element type of the result."""
        return self.numerics.result.name

    @property
    def definitions(self) -> tuple[Computed, ...]:
        """The operator as a sequence of definitions; raises ShapeError if it has none."""
        raise ShapeError(f"{self.describe()} is no sequence of definitions")

    @property
    def convolution(self) -> Conv2d | None:
        """The equal convolution of images, or None."""
        return None

    @property
    def matrix_product(self) -> Gemm | None:
        """The equal matrix product, or None."""
        return None

    @property
    def pooling(self) -> Pool2d | None:
        """The equal pooling of images, or None."""
        return None

    @property
    def normalisation(self) -> BatchNorm | None:
        """The equal normalisation of channels by given statistics, or None."""
        return None

    @property
    def bias_addition(self) -> Bias | None:
        """The equal addition of one number per index of an axis, or None."""
        return None

    @property
    def in_memory(self) -> InMemory | None:
        """The equal definition on tensors in their own layout, or None."""
        return None

    @property
    def permutation(self) -> tuple[int, ...] | None:
        """For a pure transposition, the operand's dimension of each result dimension; else None."""
        return None

    @property
    def of_group(self) -> int | None:
        """The core group whose tensor becomes the result; None if each group uses its own."""
        return None

    @property
    def border(self) -> tuple[Shape, Shape, float] | None:
        """For pure padding, the counts before and after the operand's elements, per dimension, and
        the padding value; else None.
        """
        return None

    @property
    def terms(self) -> Shape:
        """Extents over which the result's sums may be divided; empty if they may not."""
        return ()

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """For `computable`, then for each operand in `needed`: which dimension of the region and
        which term determines each dimension's interval. None if intervals depend on more than that.
        """
        return None

    @property
    def unchanged(self) -> frozenset[tuple[int, int]]:
        """Pairs of a region, numbered as in `follows`, and one of its dimensions, whose interval
        always equals the interval that it follows.
        """
        return frozenset()

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The smallest region around `result` that an operator of this kind can compute by itself;
        the whole result if it supports no partial regions.
        """
        return Box.whole(self.out_shape)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The region of each operand that the region `result` depends on, limited to `terms` where
        sums are divided. Excludes padding; empty for an operand that is not needed.
        """
        return tuple(map(Box.whole, self.input_shapes))

    def part(self, result: Box, terms: Box | None = None) -> Op:
        """The operator that computes a computable region from the needed regions of its operands.
        Partial sums, over only some `terms`, stay in the type of the sums.
        """
        return self

    def divided(self, groups: int) -> Divided:
        """Every way to divide the operator over `groups` core groups; empty if there is none."""
        return []

    def with_magnitudes(self) -> Op:
        """The operator whose result on absolute values bounds the magnitude of each sum's terms.
        This is the operator itself unless terms have signed factors.
        """
        return self


@dataclass(frozen=True)
class Maker:
    """An operator that users can compile alone: its class, and its constructing function, whose
    parameters are its options on the command line.
    """

    operator: type[Op]
    make: Callable[..., Op]


CONTRACTIONS: dict[str, Maker] = {}
"""Operators that sum products, by kind; their modules register them here."""
OPERATORS: ChainMap[str, Maker] = ChainMap({}, CONTRACTIONS)
"""All operators, by kind."""


def same_dimensions(count: int) -> Follows:
    """`Follows` of an operand with the same dimensions as the result."""
    return tuple((dimension, None) for dimension in range(count))


def in_double(op: Op, operands: Sequence[Array]) -> list[Floats]:
    """`operands` in double precision; raises ShapeError if their shapes do not fit `op`. Elements
    in fixed point become the real numbers that they represent if `op` computes in reals.
    """
    require_operands(op, operands)
    found = [np.asarray(operand, np.float64) for operand in operands]
    numerics = op.numerics
    if numerics.in_reals:
        found = [x / 2.0**k.fraction_bits for x, k in zip(found, numerics.operands, strict=True)]
    return found


def for_sums(op: Op, operands: Sequence[Array], terms: int) -> list[Array]:
    """`operands` for sums of `terms` products: in single precision, twice as fast, where it is
    exact; else in double.
    """
    require_operands(op, operands)
    if op.numerics.in_reals:
        return [*in_double(op, operands)]
    largest = math.prod(float(np.abs(x).max(initial=0)) for x in operands)
    if largest * terms <= EXACT_IN_SINGLE:
        single: list[Array] = [np.asarray(x, np.float32) for x in operands]
        if all(np.array_equal(np.rint(s), x) for s, x in zip(single, operands, strict=True)):
            return single
    return list(in_double(op, operands))


def in_own_type(op: Op, operands: Sequence[Array]) -> list[Array]:
    """`operands` in the element types of `op`. Raises ShapeError if a shape does not fit, or if an
    integer type cannot represent a value.
    """
    require_operands(op, operands)
    found = []
    for number, (operand, kind) in enumerate(zip(operands, op.numerics.operands, strict=True)):
        own = np.asarray(operand).astype(kind.numpy, copy=False)
        kept = kind.is_float or own is operand
        if not kept and not np.array_equal(own, operand):
            raise ShapeError(f"{op.kind}: operand {number} has values that {kind} has not")
        found.append(own)
    return found


def in_integers(op: Op, operands: Sequence[Array]) -> list[Integers]:
    """`operands` of integer or fixed-point types as 64-bit integers; raises as `in_own_type`."""
    return [own.astype(np.int64) for own in in_own_type(op, operands)]


def require_operands(op: Op, operands: Sequence[Array]) -> None:
    """Raise ShapeError unless the operands have the operator's shapes."""
    expected = op.input_shapes
    found = tuple(operand.shape for operand in operands)
    if found != expected:
        raise ShapeError(
            f"{op.kind}: expected operands {show_shapes(expected)}, found {show_shapes(found)}"
        )


def rounded(op: Op, result: Floats) -> Array:
    """`result` converted to the result type of `op`."""
    found: Array = converted(result, op.numerics.result)
    return found


def pair(value: IntOrPair) -> tuple[int, int]:
    """Both extents of a rectangle, or of a square given by one.

    >>> pair(3), pair((3, 5))
    ((3, 3), (3, 5))
    """
    return (value, value) if isinstance(value, int) else value


def require_positive(kind: str, **numbers: int) -> None:
    """Raise ShapeError naming the first of `numbers` that is not a positive integer."""
    for name, number in numbers.items():
        if not isinstance(number, int | np.integer) or number < 1:
            raise ShapeError(f"{kind}: {name} must be a positive integer, found {number!r}")


def require_shape(kind: str, name: str, shape: Shape) -> None:
    """Raise ShapeError unless each extent of `shape` is a positive integer."""
    for extent in shape:
        if not isinstance(extent, int | np.integer) or extent < 1:
            raise ShapeError(
                f"{kind}: {name} must have positive integer extents, found {tuple(shape)}"
            )


def require_axis(kind: str, shape: Shape, axis: int) -> None:
    """Raise ShapeError unless `axis` counts a dimension of `shape` from the front."""
    if not 0 <= axis < len(shape):
        raise ShapeError(f"{kind}: axis must be in 0..{len(shape) - 1}, found {axis}")


def show_shape(shape: Shape) -> str:
    """`(2, 3)` -> `2x3`; a single number has the shape `scalar`."""
    return "x".join(map(str, shape)) or "scalar"


def show_shapes(shapes: Sequence[Shape]) -> str:
    """`((2, 3), (3, 4))` -> `2x3, 3x4`."""
    return ", ".join(map(show_shape, shapes)) or "none"
