"""Operators that compute nothing: they change the shape or the position of elements."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import ClassVar

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops.access import straight
from tilewright.ops.box import Box, Interval
from tilewright.ops.definition import Addend, Computed, Definition
from tilewright.ops.definitions import Named, Place, Shaped, access, along, moved
from tilewright.ops.numerics import require_one_type
from tilewright.ops.op import (
    Array,
    Follows,
    Shape,
    in_own_type,
    require_axis,
    require_operands,
    require_positive,
    require_shape,
    same_dimensions,
    show_shape,
    show_shapes,
)


@dataclass(frozen=True)
class Reshape(Named):
    """The elements in the same order under another shape; no data moves."""

    kind: ClassVar[str] = "reshape"
    reshapes: ClassVar[bool] = True
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

    @property
    def terms(self) -> Shape:
        """Empty: nothing is summed, and some reshapes have no definition to query."""
        return ()

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The smallest region that is a contiguous run of elements under both shapes, within each
        index of their common leading dimensions.
        """
        return self._region(result, self.out_shape)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        return (self._region(result, self.shape),)

    def part(self, result: Box, terms: Box | None = None) -> Reshape:
        (x,) = self.needed(result)
        return replace(self, shape=x.shape, out_shape=result.shape)

    def _region(self, result: Box, shape: Shape) -> Box:
        """The computable region around `result`, in terms of `shape`, one of both shapes."""
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
        return f"reshape {show_shape(self.shape)} -> {show_shape(self.out_shape)}"

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """A copy along axes that both shapes consist of; ShapeError if there is no common split."""
        extents: list[int] = []
        shapes = [list(self.shape), list(self.out_shape)]
        places: list[list[list[tuple[int, int]]]] = [[[] for _ in s] for s in shapes]
        at = [len(s) - 1 for s in shapes]
        left = [s[-1] if s else 1 for s in shapes]
        total, steps = math.prod(self.shape), [1, 1]
        while total > 1:
            for side in (0, 1):
                while left[side] == 1:
                    at[side] -= 1
                    left[side], steps[side] = shapes[side][at[side]], 1
            extent = min(left)
            if any(n % extent for n in left):
                raise ShapeError(f"{self.describe()}: the extents have no common parts")
            for side in (0, 1):
                places[side][at[side]].insert(0, (len(extents), steps[side]))
                left[side] //= extent
                steps[side] *= extent
            extents.append(extent)
            total //= extent
        source, target = (
            access(tuple(s), *((tuple(p), 0) for p in own))
            for s, own in zip(shapes, places, strict=True)
        )
        return moved(self, tuple(extents), target, source)

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """None: dimensions are split and merged."""
        return None

    def reference(self, *operands: Array) -> Array:
        (x,) = in_own_type(self, operands)
        return x.reshape(self.out_shape)


def _ends(shape: Shape, box: Box) -> Interval:
    """The first and the last element of a region, as row-major positions."""
    first = last = 0
    for extent, (start, stop) in zip(shape, box.sides, strict=True):
        first, last = first * extent + start, last * extent + stop - 1
    return first, last


def _run(shape: Shape, first: int, last: int) -> Box:
    """The smallest contiguous region that contains the elements `first` and `last`."""
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
    """A reshape to a matrix whose rows run over the dimensions before `axis`."""
    rows, columns = math.prod(shape[:axis]), math.prod(shape[axis:])
    return Reshape(shape, (rows, columns), dtype)


@dataclass(frozen=True)
class Concat(Named):
    """The concatenation of tensors along `axis`; all other extents agree."""

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
    def follows(self) -> tuple[Follows, ...] | None:
        return (same_dimensions(len(self.out_shape)),) * (1 + len(self.input_shapes))

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The region of each tensor, dimension by dimension; empty if the tensor lies outside."""
        found, offset = [], 0
        for shape in self.input_shapes:
            start, stop = (end - offset for end in result.sides[self.axis])
            found.append(result.along(self.axis, (start, stop)) & Box.whole(shape))
            offset += shape[self.axis]
        return tuple(found)

    def part(self, result: Box, terms: Box | None = None) -> Concat:
        boxes = self.needed(result)
        kept = [i for i, box in enumerate(boxes) if box.size]
        return Concat(tuple(boxes[i].shape for i in kept), self.axis, self.numerics.result.name)

    def describe(self) -> str:
        return f"concat {show_shapes(self.input_shapes)} along axis {self.axis}"

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        parts, start = [], 0
        for number, shape in enumerate(self.input_shapes):
            places = [*along(*range(len(shape)))]
            places[self.axis] = (((self.axis, 1),), start)
            own = access(self.out_shape, *places), (straight(shape),)
            copy = Definition(shape, *own, "x0", None, "x0", self.out_dtype)
            parts.append(Addend(copy, (number,)))
            start += shape[self.axis]
        return (Computed(tuple(parts)),)

    def reference(self, *operands: Array) -> Array:
        require_operands(self, operands)
        return np.concatenate(in_own_type(self, operands), axis=self.axis)

    def _others(self, shape: Shape) -> tuple[int, Shape]:
        return len(shape), (*shape[: self.axis], *shape[self.axis + 1 :])


@dataclass(frozen=True)
class SpaceToDepth(Named):
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

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        return result.along(1, (0, self.out_shape[1]))

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        return (same_dimensions(4),) * 2

    def part(self, result: Box, terms: Box | None = None) -> SpaceToDepth:
        batch, channels, height, width = self.needed(result)[0].shape
        return replace(self, batch=batch, channels=channels, height=height, width=width)

    def describe(self) -> str:
        return f"space_to_depth {show_shape(self.input_shapes[0])}, block {self.block}"

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """A copy of blocks to channels, ordered by the pixel within the block first, as in ONNX."""
        batch, _, rows, columns = self.out_shape
        block, channels = self.block, self.channels
        n, i, r, c, u, v = range(6)
        pixels = ((((r, block), (u, 1)), 0), (((c, block), (v, 1)), 0))
        source = access(self.input_shapes[0], *along(n, i), *pixels)
        depth: Place = (((u, block * channels), (v, channels), (i, 1)), 0)
        target = access(self.out_shape, *along(n), depth, *along(r, c))
        return moved(self, (batch, channels, rows, columns, block, block), target, source)


def _require_each(kind: str, shape: Shape, **lists: tuple[int, ...]) -> None:
    """Raise ShapeError unless each of `lists` has one entry per dimension."""
    for name, numbers in lists.items():
        if len(numbers) != len(shape):
            raise ShapeError(
                f"{kind}: {name} must have a number for each of {len(shape)} dimensions, found "
                f"{len(numbers)}"
            )


class Moved(Shaped):
    """An operator that moves the elements of one tensor, of any type."""

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_one_type(self.kind, self.numerics)

    def describe(self) -> str:
        return f"{self.kind} {show_shape(self.shape)} -> {show_shape(self.out_shape)}"


@dataclass(frozen=True)
class Transpose(Moved):
    """Dimension `i` of the result is dimension `order[i]` of the tensor."""

    kind: ClassVar[str] = "transpose"
    shape: Shape
    order: tuple[int, ...]
    dtype: str = "f64"

    def __post_init__(self) -> None:
        super().__post_init__()
        if sorted(self.order) != list(range(len(self.shape))):
            raise ShapeError(
                f"transpose: order must name each of {len(self.shape)} dimensions once, found "
                f"{self.order}"
            )

    @property
    def out_shape(self) -> Shape:
        return tuple(self.shape[axis] for axis in self.order)

    @property
    def permutation(self) -> tuple[int, ...] | None:
        return self.order

    def describe(self) -> str:
        return f"transpose {show_shape(self.shape)} by {' '.join(map(str, self.order))}"

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        source = straight(self.shape, tuple(self.order.index(a) for a in range(len(self.shape))))
        return moved(self, self.out_shape, straight(self.out_shape), source)


@dataclass(frozen=True)
class FromGroup(Moved):
    """The tensor of one core `group`, for all groups; with a single group, its own."""

    kind: ClassVar[str] = "from_group"
    shape: Shape
    group: int
    dtype: str = "f64"

    @property
    def of_group(self) -> int | None:
        return self.group

    @property
    def permutation(self) -> tuple[int, ...] | None:
        """The identity: no dimension moves."""
        return tuple(range(len(self.shape)))

    def describe(self) -> str:
        return f"{self.kind} {show_shape(self.shape)} of {self.group}"

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        return moved(self, self.shape, straight(self.shape), straight(self.shape))


@dataclass(frozen=True)
class Pad(Moved):
    """Padding with `value`, by the counts `before` and `after` along each dimension."""

    kind: ClassVar[str] = "pad"
    shape: Shape
    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float = 0.0
    dtype: str = "f64"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_each(self.kind, self.shape, before=self.before, after=self.after)
        for name in ("before", "after"):
            if min(getattr(self, name), default=0) < 0:
                raise ShapeError(f"pad: {name} must not be negative, found {getattr(self, name)}")

    @property
    def out_shape(self) -> Shape:
        triples = zip(self.before, self.shape, self.after, strict=True)
        return tuple(map(sum, triples))

    @property
    def unchanged(self) -> frozenset[tuple[int, int]]:
        around = zip(self.before, self.after, strict=True)
        padded = {(w, d) for d, both in enumerate(around) if any(both) for w in (0, 1)}
        return super().unchanged - padded

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        sides = zip(self.out_shape, self.shape, result.sides, strict=True)
        return Box.of(*((0, n) if n > own else side for n, own, side in sides))

    @property
    def border(self) -> tuple[Shape, Shape, float] | None:
        return self.before, self.after, self.value

    def describe(self) -> str:
        return f"{super().describe()} with {self.value:g}"

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        places = ((((d, 1),), -before) for d, before in enumerate(self.before))
        source = access(self.shape, *places, fill=self.value)
        return moved(self, self.out_shape, straight(self.out_shape), source)


@dataclass(frozen=True)
class Slice(Moved):
    """`counts` elements along each dimension, from `start` on, `step` apart."""

    kind: ClassVar[str] = "slice"
    shape: Shape
    start: tuple[int, ...]
    counts: tuple[int, ...]
    step: tuple[int, ...]
    dtype: str = "f64"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shape(self.kind, "counts", self.counts)
        require_shape(self.kind, "step", self.step)
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
        return self.counts

    def part(self, result: Box, terms: Box | None = None) -> Slice:
        shape = self.needed(result)[0].shape
        return replace(self, shape=shape, start=(0,) * len(shape), counts=result.shape)

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        numbers = zip(self.start, self.step, strict=True)
        places = ((((d, by),), start) for d, (start, by) in enumerate(numbers))
        source = access(self.shape, *places)
        return moved(self, self.counts, straight(self.out_shape), source)


@dataclass(frozen=True)
class Shuffle(Moved):
    """The `count` elements from `start` on of each of equal `parts` along an axis, in turns: a
    slice of what a reshape, a transpose and a reshape make (ShuffleNet's channel shuffle).

    >>> Shuffle((6,), 0, 2, 1, 2).reference(np.arange(6.0))
    array([1., 4., 2., 5.])
    """

    kind: ClassVar[str] = "shuffle"
    shape: Shape
    axis: int
    parts: int
    start: int
    count: int
    dtype: str = "f64"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_axis(self.kind, self.shape, self.axis)
        require_positive(self.kind, parts=self.parts, count=self.count)
        extent = self.shape[self.axis]
        if extent % self.parts or not 0 <= self.start <= extent // self.parts - self.count:
            raise ShapeError(
                f"shuffle: {self.count} elements from {self.start} on do not lie in each of "
                f"{self.parts} equal parts of {extent}"
            )

    @property
    def out_shape(self) -> Shape:
        return (*self.shape[: self.axis], self.parts * self.count, *self.shape[self.axis + 1 :])

    @property
    def unchanged(self) -> frozenset[tuple[int, int]]:
        return super().unchanged - {(0, self.axis), (1, self.axis)}

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        return (same_dimensions(len(self.shape)),) * 2

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        return result.along(self.axis, (0, self.out_shape[self.axis]))

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        return (result.along(self.axis, (0, self.shape[self.axis])),)

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """An axis over the elements of a part and, behind all others, one over the parts."""
        rank, each = len(self.shape), self.shape[self.axis] // self.parts
        target, source = [*along(*range(rank))], [*along(*range(rank))]
        target[self.axis] = ((self.axis, self.parts), (rank, 1)), 0
        source[self.axis] = ((self.axis, 1), (rank, each)), self.start
        own = access(self.out_shape, *target), access(self.shape, *source)
        extents = (*self.shape[: self.axis], self.count, *self.shape[self.axis + 1 :], self.parts)
        return moved(self, extents, *own)


@dataclass(frozen=True)
class Resize(Moved):
    """Each element repeated `factors` times along each dimension (nearest neighbour)."""

    kind: ClassVar[str] = "resize"
    shape: Shape
    factors: tuple[int, ...]
    dtype: str = "f64"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shape(self.kind, "factors", self.factors)
        _require_each(self.kind, self.shape, factors=self.factors)

    @property
    def out_shape(self) -> Shape:
        return tuple(n * factor for n, factor in zip(self.shape, self.factors, strict=True))

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        pairs = zip(result.sides, self.factors, strict=True)
        return Box.of(*((a // by * by, -(-b // by) * by) for (a, b), by in pairs))

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """A copy along two axes per dimension: over elements, and over the repetitions of each."""
        extents = tuple(n for pair in zip(self.shape, self.factors, strict=True) for n in pair)
        places = ((((2 * d, f), (2 * d + 1, 1)), 0) for d, f in enumerate(self.factors))
        source = straight(self.shape, tuple(2 * d for d in range(len(self.shape))))
        return moved(self, extents, access(self.out_shape, *places), source)
