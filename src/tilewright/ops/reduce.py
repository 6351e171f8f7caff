"""Reductions: dimensions of a tensor summed, averaged, or gathered into their largest element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops.box import Box
from tilewright.ops.numerics import require_one_type
from tilewright.ops.op import (
    Array,
    Divisible,
    Shape,
    in_double,
    require_axis,
    require_shape,
    rounded,
    show_shape,
)

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "max": partial(np.fmax.reduce, initial=-np.inf),
    "mean": np.mean,
    "min": partial(np.fmin.reduce, initial=np.inf),
    "sum": np.sum,
}
"""Name -> function of an array along axes; largest and smallest skip NaN, as pooling does."""


@dataclass(frozen=True)
class Reduce(Divisible):
    """The dimensions `axes` become one element each."""

    function: str
    shape: Shape
    axes: tuple[int, ...]
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_one_type(self.kind, self.numerics)
        if self.function not in REDUCTIONS or not self.numerics.is_float:
            known = ", ".join(REDUCTIONS)
            raise ShapeError(
                f"reduce: knows {known} of floats, found {self.function} of {self.dtype}"
            )
        for axis in self.axes:
            require_axis(self.kind, self.shape, axis)
        if not self.axes or len(set(self.axes)) < len(self.axes):
            raise ShapeError(f"reduce: axes must be different ones, found {self.axes}")

    @property
    def kind(self) -> str:
        """`reduce_` and the name of the function."""
        return f"reduce_{self.function}"

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The tensor."""
        return (self.shape,)

    @property
    def out_shape(self) -> Shape:
        """The tensor's shape with extents of 1 along `axes`."""
        return tuple(1 if axis in self.axes else n for axis, n in enumerate(self.shape))

    @property
    def flops(self) -> int:
        """One for each element."""
        return prod(self.shape)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """All along the axes, the same region of the other dimensions."""
        box = result
        for axis in self.axes:
            box = box.along(axis, (0, self.shape[axis]))
        return (box,)

    def part(self, result: Box, terms: Box | None = None) -> Reduce:
        """The reduction of a smaller tensor."""
        return replace(self, shape=self.needed(result)[0].shape)

    def describe(self) -> str:
        """Function, shape and axes."""
        return f"{self.kind} {show_shape(self.shape)} along {' '.join(map(str, self.axes))}"

    def reference(self, *operands: Array) -> Array:
        """Computed in double precision, and rounded once."""
        (x,) = in_double(self, operands)
        return rounded(self, REDUCTIONS[self.function](x, axis=self.axes, keepdims=True))
