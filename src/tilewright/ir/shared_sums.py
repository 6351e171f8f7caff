"""A product of a constant matrix with a vector as straight-line sums with common subexpressions.

In: a matrix such as those of Winograd's transforms, whose points come in pairs a and -a. Out: sums
of a few terms each, in order. Two columns that agree up to signs are added and subtracted once (in
the output transform); two such rows are the sum and the difference of their even and odd parts (in
the input and the filter transform).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Term = tuple[float, str]


@dataclass(frozen=True)
class Sum:
    """`name` is the sum of coefficient x value over the terms; zero without terms."""

    name: str
    terms: tuple[Term, ...]

    @property
    def operations(self) -> int:
        """Additions and fused multiply-adds; a term with coefficient 1 can start for free."""
        if not self.terms:
            return 0
        return len(self.terms) - any(c == 1 for c, _ in self.terms)


def shared_sums(matrix: Matrix) -> tuple[Sum, ...]:
    """The sums that compute q0, q1, ... = matrix x (p0, p1, ...).

    >>> for one in shared_sums(np.array([[4.0, 2.0, 1.0], [4.0, -2.0, 1.0]])):
    ...     print(one.name, one.terms)
    even0 ((4.0, 'p0'), (1.0, 'p2'))
    q0 ((2.0, 'p1'), (1.0, 'even0'))
    q1 ((-2.0, 'p1'), (1.0, 'even0'))
    """
    names = [f"p{k}" for k in range(matrix.shape[1])]
    before, columns, names = _joined_columns(matrix, names)
    found, done = list(before), set[int]()
    for i, row in enumerate(columns):
        partner = _partner(columns, i, done)
        if i in done:
            continue
        if partner is None:
            found.append(Sum(f"q{i}", _terms(row, names)))
            continue
        found += _pair(columns, i, partner, names)
        done.add(partner)
    return tuple(found)


def _joined_columns(matrix: Matrix, names: list[str]) -> tuple[list[Sum], Matrix, list[str]]:
    """Replace pairs of columns that agree up to signs by sums and differences of their values."""
    columns, found, taken = matrix.copy(), list[Sum](), set[int]()
    names = list(names)
    for i, j in combinations(range(matrix.shape[1]), 2):
        a, b = matrix[:, i], matrix[:, j]
        same, opposite = (a == b) & (a != 0), (a == -b) & (a != 0)
        if {i, j} & taken or not (np.abs(a) == np.abs(b)).all():
            continue
        if same.sum() < 2 or not opposite.any():
            continue
        taken |= {i, j}
        both, apart = f"sum{len(found) // 2}", f"difference{len(found) // 2}"
        found.append(Sum(both, ((1.0, names[i]), (1.0, names[j]))))
        found.append(Sum(apart, ((1.0, names[i]), (-1.0, names[j]))))
        columns[:, i], columns[:, j] = np.where(same, a, 0), np.where(opposite, a, 0)
        names[i], names[j] = both, apart
    return found, columns, names


def _partner(matrix: Matrix, i: int, done: set[int]) -> int | None:
    """A later row that agrees with row i up to signs, with equal and opposite columns; or None."""
    for j in range(i + 1, len(matrix)):
        same = (matrix[i] == matrix[j]) & (matrix[i] != 0)
        opposite = (matrix[i] == -matrix[j]) & (matrix[i] != 0)
        agree = (np.abs(matrix[i]) == np.abs(matrix[j])).all()
        if j not in done and agree and same.any() and opposite.any():
            return j
    return None


def _pair(matrix: Matrix, i: int, j: int, names: Sequence[str]) -> list[Sum]:
    """Sums for two rows, as their common part plus or minus the part of opposite signs. The latter
    is scaled by its last coefficient, so that one multiply-add joins both.
    """
    even = _terms(np.where(matrix[i] == matrix[j], matrix[i], 0), names)
    odd = _terms(np.where(matrix[i] != matrix[j], matrix[i], 0), names)
    found, (scale, last) = [], odd[-1]
    if len(odd) > 1:
        last = f"odd{i}"
        found.append(Sum(last, tuple((c / scale, name) for c, name in odd)))
    (start, common), *more = even
    if more:
        start, common = 1.0, f"even{i}"
        found.append(Sum(common, even))
    found.append(Sum(f"q{i}", ((scale, last), (start, common))))
    found.append(Sum(f"q{j}", ((-scale, last), (start, common))))
    return found


def _terms(row: Matrix, names: Sequence[str]) -> tuple[Term, ...]:
    return tuple((float(c), name) for c, name in zip(row, names, strict=True) if c)
