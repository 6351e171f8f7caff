"""Winograd's transforms in C: one function per transform, points and element type.

In: the matrices of `ir.winograd`. Out: straight-line sums for one tile of points inside a loop
nest. Elements are widened to double inside a transform, so single-precision results are rounded
once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tilewright.codegen.c.writer import CWriter
from tilewright.common.dtypes import DType
from tilewright.ir.winograd import KERNEL_POINTS, TEXTBOOK_POINTS, parse_points, transforms

Matrix = npt.NDArray[np.float64]
TRANSFORMS = ("input", "filter", "output")
TILES_OF_CORES = (TEXTBOOK_POINTS[2], TEXTBOOK_POINTS[4])
"""Point sets that the primitives of a mesh's cores are generated for."""


def transform_name(points: str) -> str:
    """The suffix of a function's name that identifies its finite points; just the tile size for the
    textbook's points.

    >>> transform_name("0 1 -1"), transform_name("0 5/8 -5/8 3/2 -3/2")
    ('2', '4_0_5o8_m5o8_3o2_m3o2')
    """
    tile = len(parse_points(points)) - KERNEL_POINTS + 2
    if TEXTBOOK_POINTS.get(tile) == points:
        return str(tile)
    words = points.replace("/", "o").replace("-", "m").split()
    return "_".join([str(tile), *words])


def winograd_prototypes(kind: DType) -> str:
    """The declarations of all transforms of cores for one element type."""
    pairs = [(transform, points) for points in TILES_OF_CORES for transform in TRANSFORMS]
    return "\n".join(f"{_signature(transform, points, kind)};" for transform, points in pairs)


def winograd_functions(kind: DType, every: Sequence[str] = TILES_OF_CORES) -> str:
    """The definitions of all transforms for these point sets and one element type."""
    parts = []
    for points in every:
        found = transforms(points)
        parts.append(_transform(_signature("input", points, kind), found.input, 1.0, kind))
        parts.append(_transform(_signature("filter", points, kind), found.filter, 1.0, kind))
        signature = _signature("output", points, kind)
        parts.append(_transform(signature, found.output, found.divisor, kind))
    return "\n".join(parts)


def _signature(transform: str, points: str, kind: DType) -> str:
    c = kind.c_name
    return (
        f"void tw_winograd_{transform}_{transform_name(points)}_{kind.name}"
        f"({c} *y, const {c} *x,\n"
        "        const long *count, const long *y_stride, const long *x_stride,\n"
        "        long y_row, long y_column, long x_row, long x_column)"
    )


def _transform(signature: str, matrix: Matrix, divisor: float, kind: DType) -> str:
    """y = matrix x matrix^T / divisor for one tile, repeated over the loop nest."""
    writer, c = CWriter(), kind.c_name
    writer.lines(signature)
    with writer.block():
        writer.line("const long last = TW_LOOPS - 1, n = count[last];")
        writer.line("const long dy = y_stride[last], dx = x_stride[last];")
        writer.line("long at[TW_LOOPS] = {0}, i, j;")
        writer.line("if (tw_empty(count))")
        writer.line("    return;")
        with writer.block("do", "} while (tw_next(at, count));"):
            writer.line(f"{c} *to = y + tw_place(at, y_stride);")
            writer.line(f"const {c} *from = x + tw_place(at, x_stride);")
            with writer.block("for (i = 0; i < n; i++, to += dy, from += dx)"):
                _two_passes(writer, matrix, divisor, kind)
    return writer.text()


def _two_passes(writer: CWriter, matrix: Matrix, divisor: float, kind: DType) -> None:
    """Transform along the columns of the tile, then along the rows."""
    rows, side = matrix.shape
    writer.line(f"double half[{rows}][{side}];")
    with writer.block(f"for (j = 0; j < {side}; j++)"):
        loads = ", ".join(f"p{k} = from[{k} * x_row + j * x_column]" for k in range(side))
        writer.line(f"const double {loads};")
        for row in range(rows):
            writer.line(f"half[{row}][j] = {_sum(matrix[row])};")
    with writer.block(f"for (j = 0; j < {rows}; j++)"):
        loads = ", ".join(f"p{k} = half[j][{k}]" for k in range(side))
        writer.line(f"const double {loads};")
        for column in range(rows):
            total = _sum(matrix[column])
            value = total if divisor == 1.0 else f"({total}) / {divisor!r}"
            cast = "" if kind.c_name == "double" else f"({kind.c_name})"
            value = f"{cast}({value})" if cast else value
            writer.line(f"to[j * y_row + {column} * y_column] = {value};")


def _sum(coefficients: Matrix) -> str:
    """The inner product of integer coefficients with p0, p1, ...

    >>> _sum(np.array([4.0, 0.0, -5.0, -1.0]))
    '4.0 * p0 - 5.0 * p2 - p3'
    """
    text = ""
    for k, coefficient in enumerate(coefficients):
        if coefficient == 0:
            continue
        size = abs(float(coefficient))
        term = f"p{k}" if size == 1 else f"{size!r} * p{k}"
        sign = "-" if coefficient < 0 else "+"
        if text:
            text += f" {sign} {term}"
        else:
            text = f"-{term}" if coefficient < 0 else term
    return text
