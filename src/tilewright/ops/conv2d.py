"""Two-dimensional convolution as networks use it (a correlation), with groups and dilation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from tilewright.common.errors import ShapeError
from tilewright.ops.box import Box, Interval
from tilewright.ops.definition import Computed, Definition, one
from tilewright.ops.definitions import Named, Place, access, along
from tilewright.ops.numerics import partial_types, require_products
from tilewright.ops.op import CONTRACTIONS, Follows, IntOrPair, Maker, Shape, pair, require_positive
from tilewright.ops.piece import Divided, Piece, intervals, operator_piece, pieces_along
from tilewright.ops.window import Padding, out_extent, padding_of, require_window


@dataclass(frozen=True)
class Conv2d(Named):
    """batch x in_channels x height x width images with out_channels x (in/groups) x kernel weights.

    `padding` is (top, left, bottom, right); `height` and `width` exclude it.
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

    @cached_property
    def definitions(self) -> tuple[Computed, ...]:
        images, weights = self.input_shapes
        inputs, outputs = self.in_channels // self.groups, self.out_channels // self.groups
        many = self.groups > 1
        n, o, r, c, i, u, v = range(7)
        out: Place = (((7, outputs), (o, 1)), 0) if many else (((o, 1),), 0)
        into: Place = (((7, inputs), (i, 1)), 0) if many else (((i, 1),), 0)
        rows = (((r, self.stride[0]), (u, self.dilation[0])), -self.padding[0])
        columns = (((c, self.stride[1]), (v, self.dilation[1])), -self.padding[1])
        (image,) = along(n)
        x = access(images, image, into, rows, columns, fill=0.0)
        w = access(weights, out, *along(i, u, v))
        y = access(self.out_shape, image, out, *along(r, c))
        names = ("n", "o", "r", "c", "i", "u", "v", *("g" * many))
        extents = (self.batch, outputs, *self.out_shape[2:], inputs, *self.kernel)
        extents = (*extents, self.groups) if many else extents
        return one(Definition(extents, y, (x, w), "x0 * x1", "sum", "x0", self.dtype, names,
                              ("y", "x", "w")))  # fmt: skip

    @property
    def terms(self) -> Shape:
        """Input channels, kernel rows and columns; empty with groups, whose channels lie apart."""
        return () if self.groups > 1 else self.definition.terms

    @property
    def follows(self) -> tuple[Follows, ...] | None:
        """As the definition's, but computed pixels also depend on the taps, since each must reach
        the image.
        """
        found = super().follows
        assert found is not None
        own, *operands = found
        return (((*own[:2], (2, 1), (3, 2)) if self.terms else own), *operands)

    @property
    def unchanged(self) -> frozenset[tuple[int, int]]:
        return self.definition.unchanged - {(0, 2), (0, 3)}

    def computable(self, result: Box, terms: Box | None = None) -> Box:
        """The region, grown to whole channel groups if it spans several, and to pixels whose taps
        reach the image if it only reads padding.
        """
        found = self.definition.computable(result, terms)
        spans = self._spans(found, terms)
        sides = [
            side if span[0] < image and span[1] > 0 else self._seeing(axis, side, span)
            for axis, (side, span, image) in enumerate(
                zip(found.sides[2:], spans, self.input_shapes[0][2:], strict=True)
            )
        ]
        return Box.of(*found.sides[:2], *sides)

    def _spans(self, result: Box, terms: Box | None) -> list[Interval]:
        """The rows and columns of the padded images that a region reads, relative to the image."""
        own = self.definition
        axes = own.axes_of(result, terms)
        return [own.operands[0].span(d, axes) for d in (2, 3)]

    def _seeing(self, axis: int, side: Interval, span: Interval) -> Interval:
        """The pixels `side`, extended to the nearest that reaches the image; all if none does."""
        stride, image = self.stride[axis], self.input_shapes[0][2 + axis]
        start, stop = side
        if span[1] <= 0:
            stop -= (span[1] - 1) // stride
        else:
            start -= -((image - 1 - span[0]) // stride)
        extent = self.out_shape[2 + axis]
        return (start, stop) if start >= 0 and stop <= extent else (0, extent)

    def part(self, result: Box, terms: Box | None = None) -> Conv2d:
        images, weights = self.needed(result, terms)
        around = [
            (max(0, box[0] - span[0]), max(0, span[1] - box[1]))
            for box, span in zip(images.sides[2:], self._spans(result, terms), strict=True)
        ]
        (top, bottom), (left, right) = around
        batch, in_channels, height, width = images.shape
        outputs, _, *kernel = weights.shape
        return replace(
            self,
            batch=batch,
            in_channels=in_channels,
            out_channels=outputs,
            height=height,
            width=width,
            kernel=(kernel[0], kernel[1]),
            padding=(top, left, bottom, right),
            groups=max(1, outputs * self.groups // self.out_channels),
            dtype=self.dtype
            if terms in (None, Box.whole(self.terms))
            else partial_types(self.numerics),
        )

    def divided(self, groups: int) -> Divided:
        """Equal pieces along rows (swDNN III-D), images, output channels or channel groups, and
        along both rows and output channels if there are fewer images than groups.
        """
        found: Divided = [("batch", pieces_along(self, 0, groups))]
        if rows := self._grid("rows", groups, 1):
            found.insert(0, rows)
        if self.groups == 1:
            found.append(("out_channels", pieces_along(self, 1, groups)))
            parts = max(n for n in range(1, math.isqrt(groups) + 1) if groups % n == 0)
            both = self._grid("rows_out_channels", parts, groups // parts)
            found += [both] if both and self.batch < groups else []
        else:
            outputs, whole = self.out_channels // self.groups, Box.whole(self.out_shape)
            cut = [(a * outputs, b * outputs) for a, b in intervals(self.groups, groups)]
            cells = tuple(operator_piece(self, whole.along(1, part)) for part in cut)
            found.append(("channel_groups", cells))
        return found

    def _grid(self, name: str, rows: int, channels: int) -> tuple[str, tuple[Piece, ...]] | None:
        """Strips of rows, cut into `channels` parts of the output channels: each group reads some
        rows and some weights. None if strips overlap, or if only one of the two is divided.
        """
        whole = Box.whole(self.out_shape)
        strips = [whole.along(2, part) for part in intervals(self.out_height, rows)]
        columns = intervals(self.out_channels, channels)
        single = channels > 1 and (len(strips) == 1 or len(columns) == 1)
        if single or any(self.computable(strip) != strip for strip in strips):
            return None
        cells = [strip.along(1, part) for strip in strips for part in columns]
        return name, tuple(operator_piece(self, cell) for cell in cells)

    @property
    def convolution(self) -> Conv2d:
        return self

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
    """A convolution; kernel, stride, padding and dilation are numbers or (vertical, horizontal).

    `padding` may also be (top, left, bottom, right). Raises ShapeError naming the contradictory
    numbers.
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
