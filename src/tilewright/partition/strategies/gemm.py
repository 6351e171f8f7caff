"""Dividing a matrix product: over the rows or the columns of the result, never over k."""

from __future__ import annotations

from dataclasses import replace

from tilewright.ops import Gemm
from tilewright.partition.strategies.piece import EVERYTHING, Piece, Slices, intervals

Divided = list[tuple[str, tuple[Piece, ...]]]


def divide_gemm(op: Gemm, groups: int) -> Divided:
    """The pieces over m and those over n."""
    return [
        ("m", tuple(_piece(op, rows, EVERYTHING) for rows in intervals(op.m, groups))),
        ("n", tuple(_piece(op, EVERYTHING, columns) for columns in intervals(op.n, groups))),
    ]


def _piece(op: Gemm, rows: slice, columns: slice) -> Piece:
    a: Slices = (EVERYTHING, rows) if op.transpose_a else (rows, EVERYTHING)
    b: Slices = (columns, EVERYTHING) if op.transpose_b else (EVERYTHING, columns)
    result = (rows, columns)
    addend = (result,) if op.beta != 0 else ()
    m, n = len(range(op.m)[rows]), len(range(op.n)[columns])
    return Piece(replace(op, m=m, n=n), (a, b, *addend), result)
