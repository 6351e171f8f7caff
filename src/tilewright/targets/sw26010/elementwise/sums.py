"""Products of a small matrix and a vector of values as straight-line arithmetic of few operations.

In: a matrix of Winograd's transforms. Out: operations of the core on numbered values. Pairs of rows
or columns that agree up to signs share operations: their sums are the sum and the difference of two
parts, one over the terms that agree and one over those that differ in sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.ir.winograd import Matrix

ZERO_VALUE = -100
"""The number of a value that is always zero."""


@dataclass
class Sums:
    """`steps` are (mnemonic, values, result). A value below 0 is a constant: -1 the first one."""

    constants: list[float] = field(default_factory=list)
    steps: list[tuple[str, tuple[int, ...], int]] = field(default_factory=list)
    count: int = 0

    def new(self) -> int:
        """The number of a new value."""
        self.count += 1
        return self.count - 1

    def add(self, mnemonic: str, *sources: int) -> int:
        """Append one operation; returns its result."""
        result = self.new()
        self.steps.append((mnemonic, sources, result))
        return result

    def constant(self, factor: float) -> int:
        """The number of a constant."""
        if factor not in self.constants:
            self.constants.append(factor)
        return -1 - self.constants.index(factor)

    def fused(self, result: int) -> Sums:
        """The operations, with a product fused into a sum if that is its only use."""
        uses = [result, *(value for _, sources, _ in self.steps for value in sources)]
        found = dict[int, tuple[str, tuple[int, ...]]]()
        for name, sources, target in self.steps:
            alone = [v for v in sources if uses.count(v) == 1 and found.get(v, ("",))[0] == "vmuld"]
            if name == "vaddd" and alone:
                _, factors = found.pop(alone[-1])
                name, sources = "vmad", (*factors, *(v for v in sources if v != alone[-1]))
            found[target] = name, sources
        return Sums(self.constants, [(*step, t) for t, step in found.items()], self.count)

    def polynomial(self, x: int, coefficients: Sequence[float]) -> int:
        """c0 + c1 x + ..., by Horner's rule."""
        series, *lower = reversed([self.constant(c) for c in coefficients])
        for coefficient in lower:
            series = self.add("vmad", series, x, coefficient)
        return series

    def magnitude(self, x: int) -> int:
        """|x| as 0 - x for x up to zero of either sign, otherwise x, NaN included."""
        return self.add("vselle", x, self.add("vsubd", ZERO_VALUE, x), x)


def matrix_product(sums: Sums, matrix: Matrix, values: Sequence[int]) -> list[int]:
    """Append the product of the matrix and the values; returns the numbers of its results."""
    columns, matrix = list(values), matrix.copy()
    for one, two in list(_pairs(matrix.T)):
        added = sums.add("vaddd", columns[one], columns[two])
        taken = sums.add("vsubd", columns[one], columns[two])
        same = matrix[:, one] == matrix[:, two]
        matrix[:, two] = np.where(same, 0, matrix[:, one])
        matrix[:, one] = np.where(same, matrix[:, one], 0)
        columns[one], columns[two] = added, taken
    results: dict[int, int] = {}
    for one, two in _pairs(matrix):
        results[one], results[two] = _sum_and_difference(sums, matrix[one], matrix[two], columns)
    for row in range(len(matrix)):
        if row not in results:
            results[row] = _sum(sums, matrix[row], columns)
    return [results[row] for row in range(len(matrix))]


def _pairs(rows: Matrix) -> Iterator[tuple[int, int]]:
    """Disjoint pairs of rows that agree up to signs, some alike and some opposite."""
    taken: set[int] = set()
    for one in range(len(rows)):
        for two in range(one + 1, len(rows)):
            a, b = rows[one], rows[two]
            mixed = np.any((a == b) & (a != 0)) and np.any((a == -b) & (a != 0))
            if mixed and np.array_equal(np.abs(a), np.abs(b)) and not taken & {one, two}:
                taken |= {one, two}
                yield one, two


def _sum_and_difference(
    sums: Sums, one: Matrix, two: Matrix, columns: Sequence[int]
) -> tuple[int, int]:
    """E + O and E - O, of rows that agree in E and differ by sign in O."""
    even = _sum(sums, np.where(one == two, one, 0), columns)
    odd_row = np.where(one == two, 0, one)
    scale = float(np.min(np.abs(odd_row[odd_row != 0])))
    odd = _sum(sums, odd_row / scale, columns)
    if scale == 1:
        return sums.add("vaddd", even, odd), sums.add("vsubd", even, odd)
    factor = sums.constant(scale)
    return sums.add("vmad", odd, factor, even), sums.add("vnmad", odd, factor, even)


def _sum(sums: Sums, row: Matrix, columns: Sequence[int]) -> int:
    """The sum of terms; it starts with a value as it is, if there is one."""
    terms = [(float(c), v) for c, v in zip(row, columns, strict=True) if c != 0]
    first = min(terms, key=lambda term: (term[0] != 1, term[0] < 0))
    factor, total = first
    if factor < 0:
        total = sums.add("vsubd", ZERO_VALUE, total)
    if abs(factor) != 1:
        total = sums.add("vmuld", total, sums.constant(abs(factor)))
    for factor, value in terms:
        if value == first[1]:
            continue
        if abs(factor) == 1:
            total = sums.add("vaddd" if factor > 0 else "vsubd", total, value)
        else:
            name = "vmad" if factor > 0 else "vnmad"
            total = sums.add(name, value, sums.constant(abs(factor)), total)
    return total
