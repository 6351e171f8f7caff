"""Maximum and average pooling over image windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.ops.box import Box, Interval
from tilewright.ops.numerics import require_alike
from tilewright.ops.op import (
    Array,
    Divisible,
    Follows,
    IntOrPair,
    Shape,
    in_double,
    in_integers,
    pair,
    require_positive,
    rounded,
    same_dimensions,
)
from tilewright.ops.window import (
    Padding,
    clipped,
    out_extent,
    padding_of,
    require_window,
    seen,
    windows,
)

Reduction = Literal["max", "average"]


@dataclass(frozen=True)
class Pool2d(Divisible):
    """One number per window and channel.

    With `ceil_mode` a last window may reach beyond the padded image, as long as it starts inside
    the image or its leading padding. `count_padding` says whether an average counts padding.
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
        """One comparison or addition per kernel tap of each output."""
        return int(np.prod(self.out_shape)) * self.kernel[0] * self.kernel[1]

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """The images under it."""
        return (same_dimensions(4),) * 2

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The region; with the window before a last one that reaches beyond the padded image."""
        rows, columns = (self._grown(axis, result.sides[2 + axis]) for axis in (0, 1))
        return Box.of(*result.sides[:2], rows, columns)

    def _grown(self, axis: int, side: Interval) -> Interval:
        """One window more where the padded image ends before the first one does."""
        _, end = self._seen(axis, (side[0], side[0] + 1))
        padded = (self.height, self.width)[axis] + self.padding[axis + 2]
        return (side[0] - 1, side[1]) if end > padded and side[0] else side

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The images under the windows."""
        batch, channels, *pixels = result.sides
        image = (self.height, self.width)
        rows, columns = (clipped(self._seen(axis, pixels[axis]), image[axis]) for axis in (0, 1))
        return (Box.of(batch, channels, rows, columns),)

    def part(self, result: Box, terms: Box | None = None) -> Pool2d:
        """Pooling with the padding that the region touches."""
        (top, bottom), (left, right) = (self._padding_of(axis, result) for axis in (0, 1))
        batch, channels, height, width = self.needed(result)[0].shape
        return replace(
            self,
            batch=batch,
            channels=channels,
            height=height,
            width=width,
            padding=(top, left, bottom, right),
        )

    def _padding_of(self, axis: int, result: Box) -> Interval:
        """Padding before and after the image rows or columns read; none beyond the padded image."""
        image = (self.height, self.width)[axis]
        first, end = self._seen(axis, result.sides[2 + axis])
        start, stop = clipped((first, end), image)
        return start - first, min(end, image + self.padding[axis + 2]) - stop

    def _seen(self, axis: int, side: Interval) -> Interval:
        return seen(side, (0, self.kernel[axis]), self.stride[axis], self.padding[axis])

    def describe(self) -> str:
        """Reduction, input shape, kernel and stride."""
        return (
            f"{self.reduction}_pool2d {self.batch}x{self.channels}x{self.height}x{self.width}, "
            f"{self.kernel[0]}x{self.kernel[1]} s{self.stride[0]}x{self.stride[1]}"
        )

    def reference(self, *operands: Array) -> Array:
        """Maximum or mean of each window in double precision; of integers, exact and rounded
        once.
        """
        if not self.numerics.is_float:
            return self._exact(*in_integers(self, operands))
        (images,) = in_double(self, operands)
        if self.reduction == "max":
            return rounded(self, self._largest(images))
        total = self._windows(images, 0, 0).sum(axis=(-2, -1))
        return rounded(self, total / self.counts())

    def _largest(self, images: Array) -> Array:
        """The first of the largest numbers of each window; NaN is skipped, as in the reference
        implementation of ONNX. The standard is silent, and onnxruntime keeps it in some places.
        """
        windows = self._windows(images, -np.inf, -np.inf)
        best = np.full(windows.shape[:-2], -np.inf)
        for row, column in np.ndindex(self.kernel):
            tap = windows[..., row, column]
            best = np.where(best < tap, tap, best)
        return best

    def _exact(self, images: Array) -> Array:
        if self.reduction == "max":
            least = self.numerics.operands[0].limits[0]
            return self.numerics.write_back(self._windows(images, least, least).max(axis=(-2, -1)))
        total = self._windows(images, 0, 0).sum(axis=(-2, -1))
        return self.numerics.write_back(total, self.counts())

    def counts(self) -> Array:
        """Number of elements that each window averages."""
        ones = np.ones((self.height, self.width), np.int64)
        counts: Array = self._windows(ones, int(self.count_padding), 0).sum(axis=(-2, -1))
        return counts

    def _windows_along(self, axis: int) -> int:
        image = (self.height, self.width)[axis]
        kernel, stride = self.kernel[axis], self.stride[axis]
        before, after = self.padding[axis], self.padding[axis + 2]
        if not self.ceil_mode:
            return out_extent(image, kernel, stride, before, after)
        count = out_extent(image, kernel, stride, before, after + stride - 1)
        return count - 1 if (count - 1) * stride >= image + before else count

    def _windows(self, images: Array, padding_value: float, beyond_value: float) -> Array:
        """Windows over `images` inside padding, and inside the extra padding of `ceil_mode`."""
        top, left, bottom, right = self.padding
        rows, columns = self.out_shape[2:]
        more_rows = (rows - 1) * self.stride[0] + self.kernel[0] - self.height - top - bottom
        more_columns = (columns - 1) * self.stride[1] + self.kernel[1] - self.width - left - right
        leading = [(0, 0)] * (images.ndim - 2)
        padded = np.pad(
            images, [*leading, (top, bottom), (left, right)], constant_values=padding_value
        )
        extended = np.pad(
            padded,
            [*leading, (0, max(0, more_rows)), (0, max(0, more_columns))],
            constant_values=beyond_value,
        )
        return windows(extended, self.kernel, self.stride, (1, 1), (rows, columns))


def max_pool2d(
    shape: Shape,
    kernel: IntOrPair,
    *,
    stride: IntOrPair | None = None,
    padding: int | tuple[int, int] | Padding = 0,
    ceil_mode: bool = False,
    dtype: str = "f64",
) -> Pool2d:
    """Maximum pooling of images of `shape`; the stride is the kernel unless given."""
    return _pool2d("max", shape, kernel, stride, padding, ceil_mode, False, dtype)


def average_pool2d(
    shape: Shape,
    kernel: IntOrPair,
    *,
    stride: IntOrPair | None = None,
    padding: int | tuple[int, int] | Padding = 0,
    ceil_mode: bool = False,
    count_padding: bool = False,
    dtype: str = "f64",
) -> Pool2d:
    """Average pooling of images of `shape`; the stride is the kernel unless given."""
    return _pool2d("average", shape, kernel, stride, padding, ceil_mode, count_padding, dtype)


def global_average_pool2d(shape: Shape, *, dtype: str = "f64") -> Pool2d:
    """The mean of each channel of images of `shape`."""
    return average_pool2d(shape, (shape[2], shape[3]), dtype=dtype)


def _pool2d(
    reduction: Reduction,
    shape: Shape,
    kernel: IntOrPair,
    stride: IntOrPair | None,
    padding: int | tuple[int, int] | Padding,
    ceil_mode: bool,
    count_padding: bool,
    dtype: str,
) -> Pool2d:
    if len(shape) != 4:
        raise ShapeError(
            f"pool2d: expected images of 4 dimensions, found {len(shape)}: {tuple(shape)}"
        )
    step = pair(kernel if stride is None else stride)
    return Pool2d(
        reduction, *shape, pair(kernel), step, padding_of(padding), ceil_mode, count_padding, dtype
    )
