"""Gathering the windows of a kernel out of pixels (im2col) as a primitive.

Axes: rows and columns r and c in space, points x of a window, tiles t: windows side by side.
"""

from __future__ import annotations

from itertools import product
from typing import ClassVar

import numpy as np

from tilewright.ir.nodes import Operand
from tilewright.ir.place import Place
from tilewright.ir.primitive import Argument, Array, Primitive
from tilewright.ir.primitives.registry import register
from tilewright.ir.verify_types import check_one_type


@register
class Windows(Primitive, frozen=True):
    """Point (i, j) of window t is the pixel in row i `row_step`, column t `stride` + j `col_step`.

    A window has `rows` x `cols` points, counted row by row.
    """

    name: ClassVar[str] = "windows"
    arguments: ClassVar[tuple[Argument, ...]] = (Argument("xt", "writes"), Argument("rc"))

    rows: int
    cols: int
    stride: int = 1
    row_step: int = 1
    col_step: int = 1

    def meaning(self, operands: tuple[Array, ...]) -> Array:
        out, x = operands  # x: (r, c, rest), out: (x, t, rest)
        found = np.empty_like(out)
        beyond = (out.shape[3] - 1) * self.stride + 1
        for point, (i, j) in enumerate(product(range(self.rows), range(self.cols))):
            first = j * self.col_step
            columns = slice(first, first + beyond, self.stride)
            found[:, :, point] = x[:, :, i * self.row_step, columns]
        return found

    def check(self, operands: tuple[Operand, ...], place: Place) -> None:
        check_one_type(self, operands, place)
