"""What every operator offers: the shapes it takes and gives, its work, its meaning in NumPy.

In: extents. Out: a frozen dataclass per operator that refuses contradicting extents when it is
made. `reference` is the meaning that all generated code and simulations are judged against.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.common.dtypes import dtype
from tilewright.common.errors import ShapeError

Shape = tuple[int, ...]
Array = NDArray[np.floating]
Floats = NDArray[np.float64]
IntOrPair = int | tuple[int, int]


class Op(Protocol):
    """An operator with all its extents; images are batch x channels x height x width."""

    @property
    def kind(self) -> str:
        """The operator's short name, such as `conv2d`."""

    @property
    def dtype(self) -> str:
        """The name of the element type of inputs and output."""

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The shape of each operand, weights included, in the order `reference` takes them."""

    @property
    def out_shape(self) -> Shape:
        """The shape of the result."""

    @property
    def flops(self) -> int:
        """Floating-point operations; a multiply-accumulate counts as two."""

    def describe(self) -> str:
        """One short line for tables and messages."""

    def reference(self, *operands: Array) -> Array:
        """The result for `operands`, computed in double precision and rounded once."""


def in_double(op: Op, operands: Sequence[Array]) -> list[Floats]:
    """`operands` in double precision; raises ShapeError where they do not fit `op`."""
    expected = op.input_shapes
    found = tuple(operand.shape for operand in operands)
    if found != expected:
        raise ShapeError(
            f"{op.kind}: expected operands {show_shapes(expected)}, found {show_shapes(found)}"
        )
    return [np.asarray(operand, np.float64) for operand in operands]


def rounded(op: Op, result: Floats) -> Array:
    """`result` in the element type of `op`."""
    return result.astype(dtype(op.dtype).numpy, copy=False)


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
