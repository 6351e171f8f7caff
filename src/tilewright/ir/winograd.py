"""Winograd's transform matrices for 3x3 kernels, derived exactly from interpolation points.

y = A^T [(G g G^T) * (B^T d B)] A / divisor (Toom-Cook; Winograd 1980; Lavin & Gray 2016), for a set
of finite points and infinity. With integer points, filter matrices hold fractions such as 1/24. An
integer factor removes these, and a division at the end undoes it, so that all intermediate values
of integer data are integers and results can be compared exactly. Other points have smaller rounding
errors (Barabasz et al. 2020); their filter matrices stay unscaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm, prod

import numpy as np
import numpy.typing as npt

from tilewright.common.errors import ProgramError

Matrix = npt.NDArray[np.float64]
Rows = tuple[tuple[Fraction, ...], ...]

KERNEL_POINTS = 3
"""Rows and columns of the kernels that Winograd's algorithm is available for."""
TEXTBOOK_POINTS = {2: "0 1 -1", 4: "0 1 -1 2 -2", 6: "0 1 -1 2 -2 1/2 -1/2"}
"""The default finite points for each output tile (Lavin & Gray)."""


@dataclass(frozen=True)
class ExactTransforms:
    """B^T, G, A^T of F(output_tile, 3) as fractions; points are in order, infinity last."""

    input: Rows
    filter: Rows
    output: Rows


@dataclass(frozen=True, eq=False)
class Transforms:
    """B^T (points, points), G (points, 3) and A^T (output_tile, points) in double precision;
    results are divided by `divisor`.
    """

    input: Matrix
    filter: Matrix
    output: Matrix
    divisor: float

    @property
    def points(self) -> int:
        """Rows and columns of a transformed tile."""
        return len(self.input)


def parse_points(text: str) -> tuple[Fraction, ...]:
    """Finite points such as "0 5/8 -5/8". Raises ProgramError for invalid or equal ones."""
    try:
        points = tuple(Fraction(word) for word in text.split())
    except (ValueError, ZeroDivisionError):
        points = ()
    if not points or len(set(points)) < len(points):
        raise ProgramError(
            f"{text[:60]!r} are no interpolation points", fix="give different fractions"
        )
    return points


@cache
def exact_transforms(points: tuple[Fraction, ...]) -> ExactTransforms:
    """The matrices of F(m, 3) from m + 1 finite points and infinity.

    Rows of B^T are the numerators of the Lagrange polynomials; the denominators go to G. The signs
    of the rows of 0 and infinity are free; these rows begin with a positive number.
    """
    tile = len(points) - KERNEL_POINTS + 2
    inputs, filters = [], []
    for a in points:
        others = [b for b in points if b != a]
        row, below = _polynomial(others), prod((a - b for b in others), start=Fraction(1))
        sign = -1 if a == 0 and row[0] < 0 else 1
        inputs.append((*(sign * c for c in row), Fraction(0)))
        filters.append(tuple(sign * a**k / below for k in range(KERNEL_POINTS)))
    last = _polynomial(points)
    sign = 1 if next(c for c in last if c) > 0 else -1
    inputs.append(tuple(sign * c for c in last))
    filters.append((*[Fraction(0)] * (KERNEL_POINTS - 1), Fraction(1)))
    at_infinity = [*[Fraction(0)] * (tile - 1), Fraction(sign)]
    outputs = tuple((*(a**j for a in points), at_infinity[j]) for j in range(tile))
    return ExactTransforms(tuple(inputs), tuple(filters), outputs)


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the product of (x - root), constant first."""
    found = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *found], [*(-root * c for c in found), Fraction(0)]
        found = [a + b for a, b in zip(shifted, scaled, strict=True)]
    return found


@cache
def transforms(points: str) -> Transforms:
    """The matrices in double precision; G is scaled to integers if the points are integers."""
    finite = parse_points(points)
    exact, divisor = exact_transforms(finite), 1
    filters = np.array(exact.filter, dtype=np.float64)
    if all(p.denominator == 1 for p in finite):
        divisor = lcm(*(c.denominator for row in exact.filter for c in row))
        filters = np.array([[c * divisor for c in row] for row in exact.filter], dtype=np.float64)
    matrices = (np.array(rows, dtype=np.float64) for rows in (exact.input, exact.output))
    inputs, outputs = matrices
    return Transforms(inputs, filters, outputs, float(divisor**2))


def points_of(output_tile: int, points: str | None = None) -> str:
    """The finite points for a tile: the given ones, or the textbook's.

    Raises ProgramError if the textbook has none, or if their number does not suit the tile.
    """
    if points is None:
        if output_tile not in TEXTBOOK_POINTS:
            known = ", ".join(map(str, TEXTBOOK_POINTS))
            raise ProgramError(f"output_tile is {output_tile}", fix=f"use {known}, or give points")
        return TEXTBOOK_POINTS[output_tile]
    count = output_tile + KERNEL_POINTS - 2
    if len(parse_points(points)) != count:
        raise ProgramError(
            f"F({output_tile}, {KERNEL_POINTS}) with the points {points[:60]!r}",
            fix=f"give {count} finite ones",
        )
    return points


@cache
def amplification(points: str) -> float:
    """Amplification of rounding errors by the transforms: the largest ratio of an output's error to
    its magnitude, both as root mean squares for random operands, if each product has a relative
    error of one unit.

    A product's error is its magnitude, |B_i| |G_i| for point i in each direction (the lengths of
    these rows). An output sums squared errors with the squares of A^T as weights; its magnitude is
    that of a sum of nine products of pixels and kernel.

    >>> [round(amplification(points), 2) for points in ("0 1 -1", "0 1 -1 2 -2")]
    [1.67, 31.44]
    >>> round(amplification("0 5/8 -5/8 3/2 -3/2"), 2)
    8.18
    """
    found = transforms(points)
    magnitudes = (found.input**2).sum(axis=1) * (found.filter**2).sum(axis=1)
    squares = (found.output**2) @ magnitudes / found.divisor
    return float(squares.max()) / KERNEL_POINTS
