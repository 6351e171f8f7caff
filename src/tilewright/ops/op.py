"""Interface of all operators: shapes of operands and result, work, meaning in NumPy.

In: extents. Out: a frozen dataclass per operator that refuses contradicting extents when it is
made. `reference` is the meaning that all generated code and simulations are judged against.
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
"""A dimension of the result, and one of the terms."""
Follows = tuple[Pair, ...]
"""For each dimension of a region the dimension of the result and of the terms that it follows."""


class Op:
    """An operator with all its extents; images are batch x channels x height x width. Unless its
    class says otherwise its types are those of its text, it is no other operator under another
    name, and it is not divided.
    """

    is_named: ClassVar[bool] = True
    """False for definitions of a user's own; the dimensions of a named operator's result are those
    of its first operand, or those of a product.
    """
    reshapes: ClassVar[bool] = False
    """True if the elements only get another shape, in the same order."""

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
        """The definitions in sequence that the operator is; ShapeError for one that has none."""
        raise ShapeError(f"{self.describe()} is no sequence of definitions")

    @property
    def convolution(self) -> Conv2d | None:
        """The convolution of images that it is, or None."""
        return None

    @property
    def matrix_product(self) -> Gemm | None:
        """The matrix product that it is, or None."""
        return None

    @property
    def pooling(self) -> Pool2d | None:
        """The pooling of images that it is, or None."""
        return None

    @property
    def normalisation(self) -> BatchNorm | None:
        """The normalisation of channels by given numbers that it is, or None."""
        return None

    @property
    def bias_addition(self) -> Bias | None:
        """The addition of a number for each index of an axis that it is, or None."""
        return None

    @property
    def in_memory(self) -> InMemory | None:
        """The definition on tensors as they lie that it is, or None."""
        return None

    @property
    def permutation(self) -> tuple[int, ...] | None:
        """The operand's dimension that each of the result is, where no more is done; else None."""
        return None

    @property
    def of_group(self) -> int | None:
        """The core group whose tensor the result is; None for what each has of its own."""
        return None

    @property
    def border(self) -> tuple[Shape, Shape, float] | None:
        """Places before and behind the operand's elements, and what stands there, where no more is
        done; else None.
        """
        return None

    @property
    def terms(self) -> Shape:
        """Extents over which the sums of a result may be divided; none where they may not."""
        return ()

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """The dimension of the region, or of the terms, that each dimension of `computable` and of
        each operand in `needed` follows; None if they do not map one by one.
        """
        return None

    @property
    def unchanged(self) -> frozenset[tuple[int, int]]:
        """Regions, numbered as in `follows`, and dimensions of them whose interval is the one that
        they follow, wherever that lies in the result or in the terms.
        """
        return frozenset()

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The smallest region around `result` that an operator of this kind computes alone: all of
        the result where it has no partial regions.
        """
        return Box.whole(self.out_shape)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The region of each operand that the region `result` is computed from, limited to `terms`
        where the sums are divided. Excludes padding; empty for an operand not needed.
        """
        return tuple(map(Box.whole, self.input_shapes))

    def part(self, result: Box, terms: Box | None = None) -> Op:
        """The operator that computes a computable `result` from its needed operands. Partial sums,
        over some `terms` alone, stay in the type of the sums.
        """
        return self

    def divided(self, groups: int) -> Divided:
        """Every way to divide the operator over `groups` core groups; empty if there is none."""
        return []

    def with_magnitudes(self) -> Op:
        """The operator whose result on absolute values bounds the magnitude of each sum's terms:
        itself, where these have no factors.
        """
        return self


@dataclass(frozen=True)
class Maker:
    """An operator that users compile by itself: its class, and the function that they make it by,
    whose parameters are its options on the command line.
    """

    operator: type[Op]
    make: Callable[..., Op]


CONTRACTIONS: dict[str, Maker] = {}
"""Operators that sum products, by kind. A module of this package registers its own here."""
OPERATORS: ChainMap[str, Maker] = ChainMap({}, CONTRACTIONS)
"""All operators, by kind."""


def same_dimensions(count: int) -> Follows:
    """Follows of an operand whose dimensions match the result's by number."""
    return tuple((dimension, None) for dimension in range(count))


def in_double(op: Op, operands: Sequence[Array]) -> list[Floats]:
    """`operands` in double precision; raises ShapeError where they do not fit `op`. Elements of
    fixed point are the numbers that they stand for.
    """
    require_operands(op, operands)
    found = [np.asarray(operand, np.float64) for operand in operands]
    numerics = op.numerics
    if numerics.in_reals:
        found = [x / 2.0**k.fraction_bits for x, k in zip(found, numerics.operands, strict=True)]
    return found


def for_sums(op: Op, operands: Sequence[Array], terms: int) -> list[Array]:
    """`operands` for sums of `terms` products: in single precision where that is exact, which takes
    half the time, else in double.
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
    """`operands` in the element types that `op` names; raises ShapeError where they do not fit,
    in shape or because an integer type lacks one of their values.
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
    """`operands` of integer or fixed-point types as 64-bit integers, refused likewise."""
    return [own.astype(np.int64) for own in in_own_type(op, operands)]


def require_operands(op: Op, operands: Sequence[Array]) -> None:
    """Raise ShapeError where operands do not have the operator's shapes."""
    expected = op.input_shapes
    found = tuple(operand.shape for operand in operands)
    if found != expected:
        raise ShapeError(
            f"{op.kind}: expected operands {show_shapes(expected)}, found {show_shapes(found)}"
        )


def rounded(op: Op, result: Floats) -> Array:
    """`result` in the element type of `op`."""
    found: Array = converted(result, op.numerics.result)
    return found


def pair(value: IntOrPair) -> tuple[int, int]:
    """Both extents of a square or rectangle.

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
