"""Operators that gather elements: pooling over image windows, and whole dimensions reduced."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import ClassVar, Literal

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops.access import straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Addend, Computed, Definition, Gather, one
from tilewright.ops.definitions import Named, Shaped, access, along
from tilewright.ops.numerics import require_alike, require_one_type
from tilewright.ops.op import (
    Array,
    Follows,
    IntOrPair,
    Shape,
    in_own_type,
    pair,
    require_axis,
    require_positive,
    require_shape,
    same_dimensions,
    show_shape,
)
from tilewright.ops.window import Padding, out_extent, padding_of, require_window

Reduction = Literal["max", "average"]


@dataclass(frozen=True)
class Pool2d(Named):
    """Pooling: one number per window and channel.

    With `ceil_mode` a last window may reach beyond the padded image, as long as it starts inside
    the image or its leading padding. With `count_padding` averages count padding.
    """

    kind: ClassVar[str] = "pool2d"
    reduction: Reduction
    batch: int
    channels: int
    height: int
    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: Padding = (0, 0, 0, 0)
    ceil_mode: bool = False
    count_padding: bool = False
    dtype: str = "f64"

    def __post_init__(self) -> None:
        if self.reduction not in ("max", "average"):
            raise ShapeError(
                f"pool2d: reduction must be 'max' or 'average', found {self.reduction!r}"
            )
        require_positive(self.kind, batch=self.batch, channels=self.channels)
        image = (self.height, self.width)
        require_window(self.kind, image, self.kernel, self.stride, self.padding, (1, 1))
        require_alike(self.kind, self.numerics)
        for axis in (0, 1):
            last_start = (self._windows_along(axis) - 1) * self.stride[axis] - self.padding[axis]
            if self.padding[axis] >= self.kernel[axis] or last_start >= image[axis]:
                raise ShapeError(
                    f"pool2d: with padding {self.padding}, kernel {self.kernel} and stride "
                    f"{self.stride} a window lies in the padding alone"
                )

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The images."""
        return ((self.batch, self.channels, self.height, self.width),)

    @property
    def out_shape(self) -> Shape:
        """batch x channels x rows of windows x columns of windows."""
        return (self.batch, self.channels, self._windows_along(0), self._windows_along(1))

    @property
    def flops(self) -> int:
        return math.prod((*self.out_shape, *self.kernel))

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        return (same_dimensions(4),) * 2

    @property
    def unchanged(self) -> frozenset[tuple[int, int]]:
        return self.definition.unchanged - {(0, 2), (0, 3)}

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The region; if it starts at a last window that reaches beyond the padded image, also the
        window before, since an operator of that window alone would not be valid.
        """
        sides = [*result.sides]
        for axis, image in enumerate((self.height, self.width)):
            first, end = sides[2 + axis]
            reach = first * self.stride[axis] - self.padding[axis] + self.kernel[axis]
            if first and reach > image + self.padding[axis + 2]:
                sides[2 + axis] = first - 1, end
        return Box.of(*sides)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        return self.definition.needed(result)

    def part(self, result: Box, terms: Box | None = None) -> Pool2d:
        """Pooling of a region, with only the padding that it touches."""
        (images,), own = self.needed(result), self.definition
        axes, padding = own.axes_of(result), [0, 0, 0, 0]
        for axis, image in enumerate((self.height, self.width)):
            first, end = own.operands[0].span(2 + axis, axes)
            start, stop = images.sides[2 + axis]
            padding[axis] = start - first
            padding[axis + 2] = min(end, image + self.padding[axis + 2]) - stop
        batch, channels, height, width = images.shape
        top, left, bottom, right = padding
        return replace(
            self,
            batch=batch,
            channels=channels,
            height=height,
            width=width,
            padding=(top, left, bottom, right),
        )

    @cached_property
    def definition(self) -> Definition:
        """Each window's maximum, padded with the type's lowest number, or its sum."""
        kind, shape = self.numerics, self.input_shapes[0]
        if self.reduction == "max":
            least = -inf if kind.is_float else float(kind.operands[0].limits[0])
            return self._windows(shape, self.padding, "max", least, self.dtype)
        types = kind.sums.name if kind.is_float else f"{kind.operands[0]}:i64"
        return self._windows(shape, self.padding, "sum", 0.0, types)

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """Maxima, or sums divided by counts, which are sums of ones under the same windows."""
        total, counts = self.definition, self.counts()
        if self.reduction == "max":
            return one(total)
        if not self.numerics.is_float:
            raise ShapeError(
                f"{self.describe()}: averages of {self.dtype} round once, by no definition"
            )
        if (counts == counts.flat[0]).all():
            return one(replace(total, finish=f"x0 / {float(counts.flat[0])!r}"))
        image, under = self._counted_places
        ones = Definition(image, straight(image), (), "1", None, "x0", under.dtype)
        y, window = straight(self.out_shape), straight(self.out_shape[2:], (2, 3))
        names = ("mean", "sum", "counts")
        quotient = Definition(
            self.out_shape, y, (y, window), "x0 / x1", None, "x0", under.dtype, (), names
        )
        first = Computed((Addend(ones, ()),))
        return (first, *one(under, 1), *one(total, 0), *one(quotient, 3, 2))

    @cached_property
    def _counted_places(self) -> tuple[Shape, Definition]:
        """The shape of an image of all elements that count, and the windows over it."""
        top, left, bottom, right = self.padding if self.count_padding else (0, 0, 0, 0)
        image = (self.height + top + bottom, self.width + left + right)
        padding = (0, 0, 0, 0) if self.count_padding else self.padding
        return image, self._windows(image, padding, "sum", 0.0, self.definition.dtype)

    def _windows(
        self, shape: Shape, padding: Padding, gather: Gather, fill: float, kind: str
    ) -> Definition:
        """Windows of images, or of one image without batch and channels."""
        outer = len(shape) - 2
        r, s, u, v = range(outer, outer + 4)
        rows = (((r, self.stride[0]), (u, 1)), -padding[0])
        columns = (((s, self.stride[1]), (v, 1)), -padding[1])
        result = self.out_shape[2 - outer :]
        x = access(shape, *along(*range(outer)), rows, columns, fill=fill)
        names = tuple("ncrsuv"[2 - outer :])
        tensors = (gather if outer else "counts", "x")
        return Definition((*result, *self.kernel), straight(result), (x,), "x0", gather, "x0", kind,
                          names, tensors)  # fmt: skip

    def counts(self) -> Array:
        """Number of elements that each window averages, (rows, columns) of windows."""
        image, under = self._counted_places
        return under.reference(np.ones(image)).astype(np.int64)

    @property
    def pooling(self) -> Pool2d:
        return self

    def describe(self) -> str:
        return (
            f"{self.reduction}_pool2d {self.batch}x{self.channels}x{self.height}x{self.width}, "
            f"{self.kernel[0]}x{self.kernel[1]} s{self.stride[0]}x{self.stride[1]}"
        )

    def reference(self, *operands: Array) -> Array:
        """The result by the definitions. Maxima skip NaN, as in the reference implementation of
        ONNX (the standard is silent, and onnxruntime keeps NaN in some cases). Averages of integers
        are rounded once.
        """
        if self.numerics.is_float or self.reduction == "max":
            return super().reference(*operands)
        total = self.definition.reference(*in_own_type(self, operands))
        return self.numerics.write_back(total, self.counts())

    def _windows_along(self, axis: int) -> int:
        image = (self.height, self.width)[axis]
        kernel, stride = self.kernel[axis], self.stride[axis]
        before, after = self.padding[axis], self.padding[axis + 2]
        if not self.ceil_mode:
            return out_extent(image, kernel, stride, before, after)
        count = out_extent(image, kernel, stride, before, after + stride - 1)
        return count - 1 if (count - 1) * stride >= image + before else count


def pool2d(
    reduction: Reduction,
    shape: Shape,
    kernel: IntOrPair,
    *,
    stride: IntOrPair | None = None,
    padding: int | tuple[int, int] | Padding = 0,
    ceil_mode: bool = False,
    count_padding: bool = False,
    dtype: str = "f64",
) -> Pool2d:
    """Pooling of images of `shape`; the stride defaults to the kernel."""
    if len(shape) != 4:
        raise ShapeError(
            f"pool2d: expected images of 4 dimensions, found {len(shape)}: {tuple(shape)}"
        )
    step = pair(kernel if stride is None else stride)
    return Pool2d(
        reduction, *shape, pair(kernel), step, padding_of(padding), ceil_mode, count_padding, dtype
    )


max_pool2d, average_pool2d = partial(pool2d, "max"), partial(pool2d, "average")


def global_average_pool2d(shape: Shape, *, dtype: str = "f64") -> Pool2d:
    """The mean of each channel of images of `shape`."""
    return average_pool2d(shape, (shape[2], shape[3]), dtype=dtype)


REDUCTIONS: dict[str, Gather] = {"max": "max", "mean": "sum", "min": "min", "sum": "sum"}
"""The gather of each reduction by name; maxima and minima skip NaN, as pooling does."""


@dataclass(frozen=True)
class Reduce(Shaped):
    """A reduction that leaves one element along each of the dimensions `axes`."""

    function: str
    shape: Shape
    axes: tuple[int, ...]
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        if not self.numerics.in_reals:
            require_one_type(self.kind, self.numerics)
        if self.function not in REDUCTIONS or not self.numerics.is_float:
            known = ", ".join(REDUCTIONS)
            raise ShapeError(
                f"reduce: knows {known} of floats and fixed point, found {self.function} of "
                f"{self.dtype}"
            )
        for axis in self.axes:
            require_axis(self.kind, self.shape, axis)
        if not self.axes or len(set(self.axes)) < len(self.axes):
            raise ShapeError(f"reduce: axes must be different ones, found {self.axes}")

    @property
    def kind(self) -> str:
        return f"reduce_{self.function}"

    @property
    def out_shape(self) -> Shape:
        """The tensor's shape with extents of 1 along `axes`."""
        return tuple(1 if axis in self.axes else n for axis, n in enumerate(self.shape))

    def describe(self) -> str:
        return f"{self.kind} {show_shape(self.shape)} along {' '.join(map(str, self.axes))}"

    @property
    def flops(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """One gather over the axes; a mean divides its sum."""
        kept = tuple((() if a in self.axes else ((a, 1),), 0) for a in range(len(self.shape)))
        count = math.prod(self.shape[axis] for axis in self.axes)
        finish = f"x0 / {float(count)!r}" if self.function == "mean" else "x0"
        y, x = access(self.out_shape, *kept), straight(self.shape)
        gather = REDUCTIONS[self.function]
        return one(Definition(self.shape, y, (x,), "x0", gather, finish, self.dtype))
