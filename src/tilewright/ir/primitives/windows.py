"""The windows of a kernel as primitives: gathering them out of pixels (im2col), and their sums.

Axes: rows and columns r and c in space, points x of a window, tiles t: windows side by side, and
lines u of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import ClassVar

import numpy as np

from tilewright.common.expr import Value
from tilewright.ir.nodes import Operand
from tilewright.ir.place import Place
from tilewright.ir.primitive import Argument, Array, Primitive
from tilewright.ir.primitives.registry import register
from tilewright.ir.verify_types import check_one_type


class WindowPrimitive(Primitive, frozen=True):
    """A primitive on windows: point (i, j) of window t is the pixel in row i `row_step`, column
    t `stride` + j `col_step`. A window has `rows` x `cols` points, counted row by row.
    """

    rows: int
    cols: int
    stride: int = 1
    row_step: int = 1
    col_step: int = 1

    def points(self, x: Array, windows: int, lines: int = 1, down: int = 1) -> Iterator[Array]:
        """Of pixels (r, c, rest) each point in turn, of all `windows` of `lines` that are `down`
        rows apart: (u, t, rest).
        """
        height, width = (lines - 1) * down + 1, (windows - 1) * self.stride + 1
        for i, j in product(range(self.rows), range(self.cols)):
            top, left = i * self.row_step, j * self.col_step
            yield x[:, :, top : top + height : down, left : left + width : self.stride]

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        check_one_type(self, operands, place)


@register
class Windows(WindowPrimitive, frozen=True):
    """The points of each window; what room the result has beyond these stays as it is."""

    name: ClassVar[str] = "windows"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("xt", "writes"), Argument("rc"))

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, x = operands  # x: (r, c, rest), out: (x, t, rest)
        found = out.copy()
        for number, point in enumerate(self.points(x, out.shape[3])):
            found[:, :, number] = point[:, :, 0]
        return found


@register
class WindowSums(WindowPrimitive, frozen=True):
    """The sum over points and terms k of each window times factors, which have no axes u and t;
    lines of windows are `row_stride` rows apart.
    """

    row_stride: int = 1

    name: ClassVar[str] = "window_sums"
    arguments: ClassVar[tuple[Argument, ...]] = (
        Argument("ut", "writes"),
        Argument("rck"),
        Argument("xk"),
    )

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, x, w = operands  # out: (u, t, rest), x: (r, c, k, rest), w: (x, k, rest)
        found, (lines, windows) = np.zeros_like(out), out.shape[2:4]
        for number, point in enumerate(self.points(x, windows, lines, self.row_stride)):
            found += (point * w[:, :, number, None, None]).sum(axis=4)
        return found

    def flops(self, dims: Mapping[str, Value], mesh_columns: int) -> Value:
        return 2 * dims["elements"] * self.rows * self.cols * dims["k"]
