"""Two-dimensional convolution as networks use it (a correlation), with groups and dilation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tilewright.common.errors import ShapeError
from tilewright.common.fixed_point import exact_product
from tilewright.ops.box import Box
from tilewright.ops.conv2d_pieces import computable, divide_conv2d, needed, part
from tilewright.ops.numerics import require_products
from tilewright.ops.op import (
    CONTRACTIONS,
    Array,
    Follows,
    IntOrPair,
    Maker,
    Shape,
    Typed,
    for_sums,
    in_own_type,
    pair,
    require_positive,
    rounded,
    same_dimensions,
)
from tilewright.ops.piece import Divided
from tilewright.ops.window import Padding, out_extent, padding_of, require_window, windows

_COLUMNS_PER_PRODUCT = 2048
"""Output pixels that the reference lowers at a time: enough for BLAS, little enough for caches."""


@dataclass(frozen=True)
class Conv2d(Typed):
    """batch x in_channels x height x width images with out_channels x (in/groups) x kernel weights.

    `padding` is (top, left, bottom, right); `height` and `width` are those of the unpadded input.
    """

    kind: ClassVar[str] = "conv2d"
    batch: int
    in_channels: int
    out_channels: int
    height: int
    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    dtype: str = "f64"

    def __post_init__(self) -> None:
        require_positive(
            self.kind,
            batch=self.batch,
            in_channels=self.in_channels,
            out_channels=self.out_channels,
            groups=self.groups,
        )
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) % self.groups:
                raise ShapeError(
                    f"conv2d: groups = {self.groups} does not divide {name} = {getattr(self, name)}"
                )
        image = (self.height, self.width)
        require_window(self.kind, image, self.kernel, self.stride, self.padding, self.dilation)
        require_products(self.kind, self.numerics)

    @property
    def out_height(self) -> int:
        """Rows of an output image."""
        top, _, bottom, _ = self.padding
        return out_extent(
            self.height, self.kernel[0], self.stride[0], top, bottom, self.dilation[0]
        )

    @property
    def out_width(self) -> int:
        """Columns of an output image."""
        _, left, _, right = self.padding
        return out_extent(self.width, self.kernel[1], self.stride[1], left, right, self.dilation[1])

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """Images, then weights."""
        return (
            (self.batch, self.in_channels, self.height, self.width),
            (self.out_channels, self.in_channels // self.groups, *self.kernel),
        )

    @property
    def out_shape(self) -> Shape:
        """batch x out_channels x out_height x out_width."""
        return (self.batch, self.out_channels, self.out_height, self.out_width)

    @property
    def flops(self) -> int:
        """Two for each multiply-accumulate of the direct form, padding included."""
        per_output = self.in_channels // self.groups * self.kernel[0] * self.kernel[1]
        outputs = self.batch * self.out_channels * self.out_height * self.out_width
        return 2 * outputs * per_output

    @property
    def terms(self) -> Shape:
        """Input channels, kernel rows, kernel columns; none with groups, whose input channels lie
        apart.
        """
        return () if self.groups > 1 else (self.in_channels, *self.kernel)

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """Images by pixels and terms, weights by channels and terms."""
        if self.groups > 1:
            whole = (None, None)
            return *(same_dimensions(4),) * 2, ((1, None), whole, whole, whole)
        own = ((0, None), (1, None), (2, 1), (3, 2))
        images = ((0, None), (None, 0), (2, 1), (3, 2))
        return own, images, ((1, None), (None, 0), (None, 1), (None, 2))

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The region with whole channel groups where it has several."""
        return computable(self, result, terms)

    def needed(self, result: Box, terms: Box | None = None) -> tuple[Box, ...]:
        """The images with the halo, the weights."""
        return needed(self, result, terms)

    def part(self, result: Box, terms: Box | None = None) -> Conv2d:
        """A convolution with the padding that the region touches."""
        return part(self, result, terms)

    def divided(self, groups: int) -> Divided:
        """Divisions over rows of the result, images, output channels or channel groups."""
        return divide_conv2d(self, groups)

    def describe(self) -> str:
        """Input shape, output channels, kernel, stride, padding; dilation and groups if any.

        >>> conv2d(batch=128, in_channels=256, out_channels=256, height=56, width=56,
        ...        kernel=3, padding=1).describe()
        'conv2d 128x256x56x56 -> 256, 3x3 s1 p1'
        """
        text = (
            f"conv2d {self.batch}x{self.in_channels}x{self.height}x{self.width} -> "
            f"{self.out_channels}, {self.kernel[0]}x{self.kernel[1]} s{_short(self.stride)} "
            f"p{_short(self.padding)}"
        )
        dilation = f" d{_short(self.dilation)}" if self.dilation != (1, 1) else ""
        return text + dilation + (f" g{self.groups}" if self.groups > 1 else "")

    def reference(self, *operands: Array) -> Array:
        """The convolution in double precision, by BLAS or with the same result, a few images
        lowered at a time; of integers, exact and rounded once.
        """
        exact = not self.numerics.is_float
        terms = self.kernel[0] * self.kernel[1] * self.in_channels // self.groups
        images, weights = in_own_type(self, operands) if exact else for_sums(self, operands, terms)
        grouped = weights.reshape(self.groups, self.out_channels // self.groups, -1)
        result: Array = np.empty(self.out_shape, np.int64 if exact else np.float64)
        step = max(1, _COLUMNS_PER_PRODUCT // (self.out_height * self.out_width))
        for start in range(0, self.batch, step):
            result[start : start + step] = self._some_images(images[start : start + step], grouped)
        return self.numerics.write_back(result) if exact else rounded(self, result)

    def _some_images(self, images: Array, grouped_weights: Array) -> Array:
        top, left, bottom, right = self.padding
        padded = np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)))
        out = (self.out_height, self.out_width)
        view = windows(padded, self.kernel, self.stride, self.dilation, out)
        # batch, channels, rows, columns, kernel rows, kernel columns -> a column per output pixel
        columns = view.transpose(1, 4, 5, 0, 2, 3).reshape(
            self.groups, grouped_weights.shape[2], -1
        )
        multiply = np.matmul if self.numerics.is_float else exact_product
        product: Array = multiply(grouped_weights, columns)
        return product.reshape(self.out_channels, len(images), *out).transpose(1, 0, 2, 3)


def conv2d(
    *,
    batch: int,
    in_channels: int,
    out_channels: int,
    height: int,
    width: int,
    kernel: IntOrPair,
    stride: IntOrPair = 1,
    padding: int | tuple[int, int] | Padding = 0,
    dilation: IntOrPair = 1,
    groups: int = 1,
    dtype: str = "f64",
) -> Conv2d:
    """A convolution from numbers or (vertical, horizontal) pairs.

    `padding` may also be (top, left, bottom, right). Raises ShapeError naming the numbers that
    contradict each other.
    """
    return Conv2d(
        batch,
        in_channels,
        out_channels,
        height,
        width,
        pair(kernel),
        pair(stride),
        padding_of(padding),
        pair(dilation),
        groups,
        dtype,
    )


def _short(numbers: tuple[int, ...]) -> str:
    """`(1, 1)` -> `1`, `(1, 2)` -> `1,2`."""
    return str(numbers[0]) if len(set(numbers)) == 1 else ",".join(map(str, numbers))


CONTRACTIONS["conv2d"] = Maker(Conv2d, conv2d)
