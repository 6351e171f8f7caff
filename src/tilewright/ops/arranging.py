"""Operators that move elements to other places: transpose, pad, slice, resize."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops.box import Box
from tilewright.ops.numerics import require_one_type
from tilewright.ops.op import Array, Divisible, Shape, in_own_type, require_shape, show_shape


class _Arranging(Divisible):
    """One operand of a `shape`, and no arithmetic."""

    shape: Shape

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The tensor."""
        return (self.shape,)

    @property
    def flops(self) -> int:
        """0: no arithmetic."""
        return 0


def _require_each(kind: str, shape: Shape, **lists: tuple[int, ...]) -> None:
    """Raise ShapeError unless there is a number of each kind for each dimension."""
    for name, numbers in lists.items():
        if len(numbers) != len(shape):
            raise ShapeError(
                f"{kind}: {name} must have a number for each of {len(shape)} dimensions, found "
                f"{len(numbers)}"
            )


@dataclass(frozen=True)
class Transpose(_Arranging):
    """Dimension `i` of the result is dimension `order[i]` of the tensor."""

    kind: ClassVar[str] = "transpose"
    shape: Shape
    order: tuple[int, ...]
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_one_type(self.kind, self.numerics)
        if sorted(self.order) != list(range(len(self.shape))):
            raise ShapeError(
                f"transpose: order must name each of {len(self.shape)} dimensions once, found "
                f"{self.order}"
            )

    @property
    def out_shape(self) -> Shape:
        """The extents in the new order."""
        return tuple(self.shape[axis] for axis in self.order)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The region with its sides in the operand's order."""
        return (Box.of(*(result.sides[self.order.index(a)] for a in range(len(self.shape)))),)

    def part(self, result: Box, terms: Box | None = None) -> Transpose:
        """The transpose of a smaller tensor."""
        return replace(self, shape=self.needed(result)[0].shape)

    def describe(self) -> str:
        """Shape and order."""
        return f"transpose {show_shape(self.shape)} by {' '.join(map(str, self.order))}"

    def reference(self, *operands: Array) -> Array:
        """The operand with its dimensions in the new order."""
        (x,) = in_own_type(self, operands)
        return np.ascontiguousarray(x.transpose(self.order))


@dataclass(frozen=True)
class Pad(_Arranging):
    """`value` stands `before` and `after` the elements along each dimension."""

    kind: ClassVar[str] = "pad"
    shape: Shape
    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float = 0.0
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_one_type(self.kind, self.numerics)
        _require_each(self.kind, self.shape, before=self.before, after=self.after)
        for name in ("before", "after"):
            if min(getattr(self, name), default=0) < 0:
                raise ShapeError(f"pad: {name} must not be negative, found {getattr(self, name)}")

    @property
    def out_shape(self) -> Shape:
        """Extents with the padding."""
        triples = zip(self.before, self.shape, self.after, strict=True)
        return tuple(map(sum, triples))

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """All of a dimension that is padded."""
        whole = Box.whole(self.out_shape)
        for dimension in self._kept():
            whole = whole.along(dimension, result.sides[dimension])
        return whole

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The region along dimensions that are not padded, and all of the others."""
        whole = Box.whole(self.shape)
        for dimension in self._kept():
            whole = whole.along(dimension, result.sides[dimension])
        return (whole,)

    def part(self, result: Box, terms: Box | None = None) -> Pad:
        """The padding of a smaller tensor."""
        return replace(self, shape=self.needed(result)[0].shape)

    def _kept(self) -> list[int]:
        ends = zip(self.before, self.after, strict=True)
        return [dimension for dimension, both in enumerate(ends) if both == (0, 0)]

    def describe(self) -> str:
        """Both shapes and the value."""
        return f"pad {show_shape(self.shape)} -> {show_shape(self.out_shape)} with {self.value:g}"

    def reference(self, *operands: Array) -> Array:
        """The elements with padding around them."""
        (x,) = in_own_type(self, operands)
        widths = list(zip(self.before, self.after, strict=True))
        return np.pad(x, widths, constant_values=x.dtype.type(self.value))


@dataclass(frozen=True)
class Slice(_Arranging):
    """`counts` elements along each dimension, from `start` on, `step` apart."""

    kind: ClassVar[str] = "slice"
    shape: Shape
    start: tuple[int, ...]
    counts: tuple[int, ...]
    step: tuple[int, ...]
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_shape(self.kind, "counts", self.counts)
        require_shape(self.kind, "step", self.step)
        require_one_type(self.kind, self.numerics)
        _require_each(self.kind, self.shape, start=self.start, counts=self.counts, step=self.step)
        numbers = zip(self.shape, self.start, self.counts, self.step, strict=True)
        for dimension, (extent, start, count, step) in enumerate(numbers):
            if start < 0 or start + (count - 1) * step >= extent:
                raise ShapeError(
                    f"slice: {count} elements from {start} on, {step} apart, do not lie in "
                    f"dimension {dimension} of {show_shape(self.shape)}"
                )

    @property
    def out_shape(self) -> Shape:
        """Number of elements taken along each dimension."""
        return self.counts

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """From the first to the last element that is taken."""
        numbers = zip(self.start, self.step, result.sides, strict=True)
        return (Box.of(*((s + a * by, s + (b - 1) * by + 1) for s, by, (a, b) in numbers)),)

    def part(self, result: Box, terms: Box | None = None) -> Slice:
        """The slice out of the needed region alone."""
        shape = self.needed(result)[0].shape
        return replace(self, shape=shape, start=(0,) * len(shape), counts=result.shape)

    def describe(self) -> str:
        """Both shapes."""
        return f"slice {show_shape(self.shape)} -> {show_shape(self.out_shape)}"

    def reference(self, *operands: Array) -> Array:
        """The elements that are taken."""
        (x,) = in_own_type(self, operands)
        numbers = zip(self.start, self.counts, self.step, strict=True)
        where = tuple(slice(s, s + (count - 1) * by + 1, by) for s, count, by in numbers)
        return np.ascontiguousarray(x[where])


@dataclass(frozen=True)
class Resize(_Arranging):
    """Each element stands `factors` times along each dimension (nearest neighbour)."""

    kind: ClassVar[str] = "resize"
    shape: Shape
    factors: tuple[int, ...]
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_shape(self.kind, "factors", self.factors)
        require_one_type(self.kind, self.numerics)
        _require_each(self.kind, self.shape, factors=self.factors)

    @property
    def out_shape(self) -> Shape:
        """The extents times the factors."""
        return tuple(n * factor for n, factor in zip(self.shape, self.factors, strict=True))

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """Whole copies of elements."""
        pairs = zip(result.sides, self.factors, strict=True)
        return Box.of(*((a // by * by, -(-b // by) * by) for (a, b), by in pairs))

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The elements that are copied."""
        pairs = zip(result.sides, self.factors, strict=True)
        return (Box.of(*((a // by, -(-b // by)) for (a, b), by in pairs)),)

    def part(self, result: Box, terms: Box | None = None) -> Resize:
        """The resize of a smaller tensor."""
        return replace(self, shape=self.needed(result)[0].shape)

    def describe(self) -> str:
        """Both shapes."""
        return f"resize {show_shape(self.shape)} -> {show_shape(self.out_shape)}"

    def reference(self, *operands: Array) -> Array:
        """The elements, repeated."""
        (x,) = in_own_type(self, operands)
        for axis, factor in enumerate(self.factors):
            x = np.repeat(x, factor, axis)
        return x
