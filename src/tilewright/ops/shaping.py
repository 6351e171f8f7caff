"""Operators that compute nothing: they give the same elements another shape or place."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import ClassVar

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops.box import Box, Interval
from tilewright.ops.numerics import require_one_type
from tilewright.ops.op import (
    Array,
    Divisible,
    Follows,
    Shape,
    Typed,
    in_own_type,
    require_axis,
    require_positive,
    require_shape,
    same_dimensions,
    show_shape,
    show_shapes,
)


@dataclass(frozen=True)
class Reshape(Typed):
    """The elements in the same order under another shape; no data moves."""

    kind: ClassVar[str] = "reshape"
    shape: Shape
    out_shape: Shape
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_shape(self.kind, "out_shape", self.out_shape)
        require_one_type(self.kind, self.numerics)
        before, after = math.prod(self.shape), math.prod(self.out_shape)
        if before != after:
            raise ShapeError(
                f"reshape: {show_shape(self.shape)} has {before} elements, "
                f"{show_shape(self.out_shape)} has {after}"
            )

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The tensor."""
        return (self.shape,)

    @property
    def flops(self) -> int:
        """0: no arithmetic."""
        return 0

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The smallest region that is one run of elements under both shapes, behind the leading
        dimensions that both have.
        """
        return self._region(result, self.out_shape)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The run of elements around the region."""
        return (self._region(result, self.shape),)

    def part(self, result: Box, terms: Box | None = None) -> Reshape:
        """A reshape of the run."""
        (x,) = self.needed(result)
        return replace(self, shape=x.shape, out_shape=result.shape)

    def _region(self, result: Box, shape: Shape) -> Box:
        """The computable region around `result`, in one of both shapes."""
        pairs = zip(self.shape, self.out_shape, strict=False)
        lead = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        both = self.shape[lead:], self.out_shape[lead:]
        found, before = _ends(both[1], Box.of(*result.sides[lead:])), (-1, -1)
        while found != before:
            before = found
            for own in both:
                found = _ends(own, _run(own, *found))
        return Box.of(*result.sides[:lead], *_run(shape[lead:], *found).sides)

    def describe(self) -> str:
        """Both shapes."""
        return f"reshape {show_shape(self.shape)} -> {show_shape(self.out_shape)}"

    def reference(self, *operands: Array) -> Array:
        """The operand in its new shape."""
        (x,) = in_own_type(self, operands)
        return x.reshape(self.out_shape)


def _ends(shape: Shape, box: Box) -> Interval:
    """The first and the last element of a region, counted in the order of memory."""
    first = last = 0
    for extent, (start, stop) in zip(shape, box.sides, strict=True):
        first, last = first * extent + start, last * extent + stop - 1
    return first, last


def _run(shape: Shape, first: int, last: int) -> Box:
    """The smallest region that is one run of elements and has both."""
    sides: list[Interval] = []
    below = math.prod(shape)
    inside = True
    for extent in shape:
        below //= extent
        a, b = first // below % extent, last // below % extent
        sides.append((a, b + 1) if inside else (0, extent))
        inside = inside and a == b
    return Box.of(*sides)


def flatten(shape: Shape, *, axis: int = 1, dtype: str = "f64") -> Reshape:
    """A matrix whose rows run over the dimensions before `axis`."""
    rows, columns = math.prod(shape[:axis]), math.prod(shape[axis:])
    return Reshape(shape, (rows, columns), dtype)


@dataclass(frozen=True)
class Concat(Divisible):
    """Tensors one behind the other along `axis`; all other extents agree."""

    kind: ClassVar[str] = "concat"
    input_shapes: tuple[Shape, ...]
    axis: int = 1
    dtype: str = "f64"

    def __post_init__(self) -> None:
        if not self.input_shapes:
            raise ShapeError("concat: needs at least one tensor")
        first = self.input_shapes[0]
        require_axis(self.kind, first, self.axis)
        require_one_type(self.kind, self.numerics)
        for shape in self.input_shapes:
            require_shape(self.kind, "shape", shape)
            if self._others(shape) != self._others(first):
                raise ShapeError(
                    f"concat: shapes {show_shapes(self.input_shapes)} differ in more than axis "
                    f"{self.axis}"
                )

    @property
    def out_shape(self) -> Shape:
        """The extents along the axis add up."""
        first = self.input_shapes[0]
        total = sum(shape[self.axis] for shape in self.input_shapes)
        return (*first[: self.axis], total, *first[self.axis + 1 :])

    @property
    def flops(self) -> int:
        """0: no arithmetic."""
        return 0

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """Each tensor's dimensions follow the result's."""
        return (same_dimensions(len(self.out_shape)),) * (1 + len(self.input_shapes))

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The part of each tensor that lies in the region."""
        found, offset = [], 0
        for shape in self.input_shapes:
            start, stop = (end - offset for end in result.sides[self.axis])
            own = result.along(self.axis, (start, stop))
            found.append(own & Box.whole(shape))
            offset += shape[self.axis]
        return tuple(found)

    def part(self, result: Box, terms: Box | None = None) -> Concat:
        """The tensors that lie in the region, behind each other."""
        boxes = self.needed(result)
        kept = [i for i, box in enumerate(boxes) if box.size]
        return Concat(tuple(boxes[i].shape for i in kept), self.axis, self.numerics.result.name)

    def describe(self) -> str:
        """Shapes and axis."""
        return f"concat {show_shapes(self.input_shapes)} along axis {self.axis}"

    def reference(self, *operands: Array) -> Array:
        """The joined tensors."""
        return np.concatenate(in_own_type(self, operands), axis=self.axis)

    def _others(self, shape: Shape) -> tuple[int, Shape]:
        return len(shape), (*shape[: self.axis], *shape[self.axis + 1 :])


@dataclass(frozen=True)
class SpaceToDepth(Typed):
    """Each `block` x `block` square of pixels becomes that many channels (YOLOv2's passthrough)."""

    kind: ClassVar[str] = "space_to_depth"
    batch: int
    channels: int
    height: int
    width: int
    block: int
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_positive(
            self.kind,
            batch=self.batch,
            channels=self.channels,
            height=self.height,
            width=self.width,
            block=self.block,
        )
        for name in ("height", "width"):
            if getattr(self, name) % self.block:
                raise ShapeError(
                    f"space_to_depth: block = {self.block} does not divide "
                    f"{name} = {getattr(self, name)}"
                )
        require_one_type(self.kind, self.numerics)

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The images."""
        return ((self.batch, self.channels, self.height, self.width),)

    @property
    def out_shape(self) -> Shape:
        """block^2 times the channels, 1 / block the rows and columns."""
        channels = self.channels * self.block**2
        return (self.batch, channels, self.height // self.block, self.width // self.block)

    @property
    def flops(self) -> int:
        """0: no arithmetic."""
        return 0

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """The image's dimensions follow the result's."""
        return (same_dimensions(4),) * 2

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """All channels, which together hold one square of pixels."""
        return result.along(1, (0, self.out_shape[1]))

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The squares of pixels."""
        batch, _, *pixels = result.sides
        rows, columns = ((a * self.block, b * self.block) for a, b in pixels)
        return (Box.of(batch, (0, self.channels), rows, columns),)

    def part(self, result: Box, terms: Box | None = None) -> SpaceToDepth:
        """The operator on smaller images."""
        batch, channels, height, width = self.needed(result)[0].shape
        return replace(self, batch=batch, channels=channels, height=height, width=width)

    def describe(self) -> str:
        """Input shape and block."""
        return f"space_to_depth {show_shape(self.input_shapes[0])}, block {self.block}"

    def reference(self, *operands: Array) -> Array:
        """Blocks of pixels as channels, ordered by pixel of the block first, as in ONNX."""
        (x,) = in_own_type(self, operands)
        _, _, rows, columns = self.out_shape
        squares = x.reshape(self.batch, self.channels, rows, self.block, columns, self.block)
        return squares.transpose(0, 3, 5, 1, 2, 4).reshape(self.out_shape)
