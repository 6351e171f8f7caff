"""Winograd's transforms in C: one function per transform, output tile and element type.

In: the integer matrices of `ir.winograd`. Out: straight-line sums for one tile of points inside a
loop nest. Elements are widened to double inside a transform, so that single-precision results are
rounded once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.common.dtypes import DType
from tilewright.ir.winograd import filter_matrix, input_matrix, output_matrix
from tilewright.targets.c_writer import CWriter

Matrix = npt.NDArray[np.float64]
OUTPUT_TILES = (2, 4)
TRANSFORMS = ("input", "filter", "output")


def winograd_prototypes(kind: DType) -> str:
    """The declarations of all transforms for one element type."""
    pairs = [(transform, tile) for tile in OUTPUT_TILES for transform in TRANSFORMS]
    return "\n".join(f"{_signature(transform, tile, kind)};" for transform, tile in pairs)


def winograd_functions(kind: DType) -> str:
    """The definitions of all transforms for one element type."""
    parts = []
    for tile in OUTPUT_TILES:
        matrix, divisor = output_matrix(tile)
        parts.append(_transform(_signature("input", tile, kind), input_matrix(tile), 1.0, kind))
        parts.append(_transform(_signature("filter", tile, kind), filter_matrix(tile), 1.0, kind))
        parts.append(_transform(_signature("output", tile, kind), matrix, divisor, kind))
    return "\n".join(parts)


def _signature(transform: str, tile: int, kind: DType) -> str:
    c = kind.c_name
    return (
        f"void tw_winograd_{transform}_{tile}_{kind.name}({c} *y, const {c} *x,\n"
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
    """First along the columns of the tile, then along the rows."""
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
