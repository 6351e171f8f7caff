"""Normalising operators at inference: softmax, batch normalisation, local response."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tilewright.common.errors import ShapeError
from tilewright.ops.access import Access, straight
from tilewright.ops.box import Box
from tilewright.ops.definition import Addend, Computed, Definition, Gather, one
from tilewright.ops.definitions import Shaped, access, along
from tilewright.ops.numerics import require_float
from tilewright.ops.op import Shape, require_axis, require_positive, require_shape, show_shape


@dataclass(frozen=True)
class Softmax(Shaped):
    """exp(x) over its sum along `axis`."""

    kind: ClassVar[str] = "softmax"
    shape: Shape
    axis: int = 1
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_axis(self.kind, self.shape, self.axis)
        require_float(self.kind, self.numerics)

    @property
    def flops(self) -> int:
        """Five per element: maximum, difference, exponential, sum, quotient."""
        return 5 * math.prod(self.shape)

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        return result.along(self.axis, (0, self.shape[self.axis]))

    def describe(self) -> str:
        return f"softmax {show_shape(self.shape)} along axis {self.axis}"

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """Maximum, exponentials, sum, quotient; the maximum does not change the result."""
        x, kind, shape = straight(self.shape), self.dtype, self.shape
        places = (((), 0) if a == self.axis else (((a, 1),), 0) for a in range(len(shape)))
        row = access(tuple(1 if a == self.axis else n for a, n in enumerate(shape)), *places)

        def made(name: str, y: Access, read: tuple[Access, ...], body: str, gather: Gather | None
                 ) -> Definition:  # fmt: skip
            return Definition(shape, y, read, body, gather, "x0", kind, (), (name, "x", "row"))

        largest = made("largest", row, (x,), "x0", "max")
        powers = made("powers", x, (x, row), "exp(x0 - x1)", None)
        total = made("sum", row, (x,), "x0", "sum")
        quotient = made("quotient", x, (x, row), "x0 / x1", None)
        first = Computed((Addend(largest, (0,)),), constant=True)
        return (first, *one(powers, 0, 1), *one(total, 2), *one(quotient, 2, 3))


@dataclass(frozen=True)
class BatchNorm(Shaped):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias with fixed statistics per channel."""

    kind: ClassVar[str] = "batch_norm"
    shape: Shape
    epsilon: float = 1e-5
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_axis(self.kind, self.shape, 1)
        require_float(self.kind, self.numerics)
        if not self.epsilon >= 0:
            raise ShapeError(f"batch_norm: epsilon must not be negative, found {self.epsilon}")

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The tensor, then scale, bias, mean and variance of each channel."""
        channels = (self.shape[1],)
        return (self.shape, channels, channels, channels, channels)

    @property
    def flops(self) -> int:
        """One multiply-add per element, since statistics fold into two numbers per channel."""
        return 2 * math.prod(self.shape)

    @property
    def normalisation(self) -> BatchNorm:
        return self

    def describe(self) -> str:
        return f"batch_norm {show_shape(self.shape)}"

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """The normalisation of each element by the statistics of its channel."""
        x, channels = straight(self.shape), straight((self.shape[1],), (1,))
        body = f"(x0 - x3) / sqrt(x4 + {self.epsilon!r}) * x1 + x2"
        places = (x, *[channels] * 4)
        return one(Definition(self.shape, x, places, body, None, "x0", self.dtype))


@dataclass(frozen=True)
class LocalResponseNorm(Shaped):
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ** beta."""

    kind: ClassVar[str] = "local_response_norm"
    shape: Shape
    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_shape(self.kind, "shape", self.shape)
        require_axis(self.kind, self.shape, 1)
        require_positive(self.kind, size=self.size)
        require_float(self.kind, self.numerics)

    @property
    def flops(self) -> int:
        """A multiply-add per neighbour, then a multiply-add, a power and a quotient."""
        return math.prod(self.shape) * (2 * self.size + 4)

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The region with all channels: an operator on some channels would cut the window there."""
        return result.along(1, (0, self.shape[1]))

    def describe(self) -> str:
        return f"local_response_norm {show_shape(self.shape)} over {self.size} channels"

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        """The sum of squares over neighbouring channels, cut at both ends, then the power."""
        rank, x = len(self.shape), straight(self.shape)
        near = [*along(*range(rank))]
        near[1] = (((1, 1), (rank, 1)), -((self.size - 1) // 2))
        around, kind = access(self.shape, *near, fill=0.0), self.dtype
        extents = (*self.shape, self.size)
        squares = Definition(
            extents, x, (around,), "x0 * x0", "sum", "x0", kind, (), ("squares", "x")
        )
        body = f"x0 / pow({self.bias!r} + {self.alpha / self.size!r} * x1, {self.beta!r})"
        names = ("quotient", "x", "squares")
        last = Definition(self.shape, x, (x, x), body, None, "x0", kind, (), names)
        return (*one(squares), *one(last, 0, 1))
