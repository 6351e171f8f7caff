"""Normalising operators at inference: softmax, batch normalisation, local response."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops.box import Box
from tilewright.ops.numerics import require_float
from tilewright.ops.op import (
    Array,
    Follows,
    Shape,
    Shaped,
    in_double,
    require_axis,
    require_positive,
    require_shape,
    rounded,
    same_dimensions,
    show_shape,
)


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

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """The tensor's dimensions follow the result's."""
        return (same_dimensions(len(self.shape)),) * 2

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """Whole vectors along the axis."""
        return result.along(self.axis, (0, self.shape[self.axis]))

    def describe(self) -> str:
        """Shape and axis."""
        return f"softmax {show_shape(self.shape)} along axis {self.axis}"

    def reference(self, *operands: Array) -> Array:
        """Softmax in double precision, with the maximum subtracted first."""
        (x,) = in_double(self, operands)
        powers = np.exp(x - x.max(axis=self.axis, keepdims=True))
        return rounded(self, powers / powers.sum(axis=self.axis, keepdims=True))


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
        """One multiply-add per element: the statistics fold into two numbers per channel."""
        return 2 * math.prod(self.shape)

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """The tensor's dimensions follow the result's, statistics its channels."""
        return *(same_dimensions(len(self.shape)),) * 2, *[((1, None),)] * 4

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The region of the tensor, and the parameters of its channels."""
        return result, *[Box.of(result.sides[1])] * 4

    def describe(self) -> str:
        """Shape."""
        return f"batch_norm {show_shape(self.shape)}"

    def reference(self, *operands: Array) -> Array:
        """The normalisation in double precision."""
        x, *statistics = in_double(self, operands)
        per_channel = (-1, *[1] * (len(self.shape) - 2))
        scale, bias, mean, variance = (row.reshape(per_channel) for row in statistics)
        return rounded(self, (x - mean) / np.sqrt(variance + self.epsilon) * scale + bias)


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

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """The tensor's dimensions follow the result's."""
        return (same_dimensions(len(self.shape)),) * 2

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """All channels: sums over neighbours are not cut elsewhere than at the ends."""
        return result.along(1, (0, self.shape[1]))

    def describe(self) -> str:
        """Shape and size."""
        return f"local_response_norm {show_shape(self.shape)} over {self.size} channels"

    def reference(self, *operands: Array) -> Array:
        """The result in double precision; neighbourhoods are cut at the first and last channel."""
        (x,) = in_double(self, operands)
        before = (self.size - 1) // 2
        around = [(0, 0)] * x.ndim
        around[1] = (before, self.size - 1 - before)
        squares = np.lib.stride_tricks.sliding_window_view(np.pad(x * x, around), self.size, axis=1)
        total = squares.sum(axis=-1)
        return rounded(self, x / (self.bias + self.alpha / self.size * total) ** self.beta)
