"""The matrix product inside a contraction of two operands: which axes are rows, columns and terms.

In: a definition. Out: its operands cut into cells, dimensions that loops address separately, and
its axes by role. Axes of one operand and the result are rows (m) or columns (n), axes of both
operands alone are terms (k), and all others are loops, such as the taps of windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.ops.access import Access, Term
from tilewright.ops.box import Box
from tilewright.ops.definition import Definition
from tilewright.ops.op import Array, Shape


@dataclass(frozen=True)
class Cell:
    """A dimension of an operand, which loops address at `offset` plus the sum of the `terms`."""

    extent: int
    terms: tuple[Term, ...]
    offset: int = 0

    @property
    def axes(self) -> frozenset[int]:
        """The axes that move the index."""
        return frozenset(axis for axis, _ in self.terms)


@dataclass(frozen=True)
class Cut:
    """An operand in cells. Each stored dimension is cropped to the slice `taken`, padded `around`
    with the fill, reversed if `flipped`, and cut into cells. Dimensions in which axes run against
    each other are `expanded`: listed index by index, with a cell for each axis. `shifted` if some
    blocks begin inside a border.
    """

    taken: tuple[slice, ...]
    around: tuple[tuple[int, int], ...]
    fill: float
    flipped: tuple[int, ...]
    cells: tuple[Cell, ...]
    cropped: bool = False
    expanded: tuple[tuple[int, tuple[int, ...]], ...] = ()
    shifted: bool = False

    @property
    def as_it_lies(self) -> bool:
        """True if the operand is read whole and forwards, with a border of zeros at most, which
        lies outside its blocks.
        """
        moved = any(map(any, self.around)) and self.fill != 0.0
        return not (self.flipped or self.cropped or moved or self.expanded or self.shifted)

    def arranged(self, stored: Array) -> Array:
        """The operand with one dimension per cell."""
        x = stored[self.taken]
        if any(map(any, self.around)):
            x = np.pad(x, self.around, constant_values=x.dtype.type(self.fill))
        for d, places in self.expanded:
            x = x.take(places, d)
        return np.flip(x, self.flipped).reshape([cell.extent for cell in self.cells])


@dataclass(frozen=True)
class MatrixRoles:
    """A contraction as loops around the product of a left operand (m x k) and a right one (k x n).

    Axes that are cells of their own are `m`, `n` and `k`. Axes of the result in windows of the left
    or right operand are `wide_m` and `wide_n`; its other axes are `loops`, and the other summed
    axes `taps`. If `swapped`, the left operand is the definition's second. `result` is the access
    of the result.
    """

    extents: Shape
    operands: tuple[Cut, Cut]
    result: Access
    swapped: bool
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    wide_m: tuple[int, ...]
    wide_n: tuple[int, ...]
    loops: tuple[int, ...]
    taps: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes of the result with more than one step, in order."""
        return tuple(sorted({*self.m, *self.n, *self.wide_m, *self.wide_n, *self.loops}))

    @property
    def left(self) -> Cut:
        """The operand with rows."""
        return self.operands[self.swapped]

    @property
    def right(self) -> Cut:
        """The operand with columns."""
        return self.operands[not self.swapped]

    def extent(self, axes: Sequence[int]) -> int:
        """Product of the extents of several axes."""
        return prod(self.extents[a] for a in axes)

    def restored(self, values: Array) -> Array:
        """The result's tensor from values along the kept axes, in order."""
        whole = np.zeros(self.result.shape, values.dtype)
        kept = {*self.kept}
        shape = [n if a in kept else 1 for a, n in enumerate(self.extents)]
        self.result.write(whole, self.extents, values.reshape(shape))
        return whole


def matrix_roles(op: Definition) -> MatrixRoles:
    """The roles of a contraction's axes, with summed axes reversed so that most run forwards."""
    turning = backwards(op)
    result, *given = (x.turned(op.extents, turning) for x in (op.result, *op.operands))
    first, second = (_in_cells(x, op.extents) for x in given)
    several = [a for a, n in enumerate(op.extents) if n > 1]
    inside = tuple({a for cell in cut.cells for a in cell.axes} for cut in (first, second))
    kept = {a for a in several if a in result.axes}
    own = [[a for a in several if a in inside[i] and a not in inside[1 - i] and a in kept]
           for i in (0, 1)]  # fmt: skip
    both = [a for a in several if a in inside[0] & inside[1] and a not in kept]
    straight = [_straight(op.extents, cut) for cut in (first, second)]
    single = [_single(cut) for cut in (first, second)]
    plain = [[a for a in own[i] if a in straight[i]] for i in (0, 1)]
    wide = [[a for a in own[i] if a not in straight[i] and a in single[i]] for i in (0, 1)]
    swapped = len(wide[0]) > len(wide[1])
    k = tuple(a for a in both if a in straight[0] & straight[1])
    placed = {*plain[0], *plain[1], *wide[0], *wide[1]}
    order = {a: i for i, a in enumerate(a for dim in result.terms for a, _ in dim)}
    by_result = [tuple(sorted(axes, key=lambda a: order[a])) for axes in (*plain, *wide)]
    return MatrixRoles(
        op.extents,
        (first, second),
        result,
        swapped,
        by_result[swapped],
        by_result[not swapped],
        k,
        by_result[2 + swapped],
        by_result[2 + (not swapped)],
        tuple(a for a in several if a in kept and a not in placed),
        tuple(a for a in several if a not in kept and a not in k),
    )


def backwards(op: Definition) -> frozenset[int]:
    """The summed axes to reverse so that, as far as possible, all axes of a dimension run the same
    way: then only whole dimensions need to be flipped.
    """
    dims = [{a: s for a, s in terms if op.extents[a] > 1} for x in op.operands for terms in x.terms]
    way = dict.fromkeys(op.kept, 1)
    reached: set[int] = set()
    for start in (None, *op.gathered):
        if start is not None:
            if start in way:
                continue
            way[start] = 1
        waiting = list(way) if start is None else [start]
        while waiting:
            axis = waiting.pop()
            for d, steps in enumerate(dims):
                if axis in steps and d not in reached:
                    reached.add(d)
                    forwards = way[axis] * (1 if steps[axis] > 0 else -1)
                    for other in steps.keys() - way.keys():
                        way[other] = forwards * (1 if steps[other] > 0 else -1)
                        waiting.append(other)
    return frozenset(a for a, direction in way.items() if direction < 0)


def _in_cells(access: Access, extents: Shape) -> Cut:
    """The operand of an access, cut into cells."""
    whole = Box.whole(extents)
    taken, around, flipped, cells, expanded = [], [], [], list[Cell](), []
    shifted = False
    for d, size in enumerate(access.shape):
        (low, high), offset = access.span(d, whole), access.offsets[d]
        terms = tuple((a, s) for a, s in access.terms[d] if extents[a] > 1)
        against = len({s > 0 for _, s in terms}) > 1
        first, last = (low, high) if len(terms) <= 1 else (min(low, 0), max(high, size))
        taken.append(slice(min(max(first, 0), size), max(min(last, size), 0)))
        before = min(max(0, -first), last - first)
        around.append((before, last - first - before - max(0, taken[-1].stop - taken[-1].start)))
        offset -= first
        if against:
            expanded.append((d, _places(terms, offset, extents)))
            cells += [Cell(extents[a], ((a, 1),)) for a, _ in terms]
            continue
        if terms and terms[0][1] < 0:
            flipped.append(d)
            terms = tuple((a, -s) for a, s in terms)
            offset = last - first - 1 - offset
        own = _cells(Cell(last - first, terms, offset), extents)
        shifted = shifted or (len(own) > 1 and any(around[-1]))
        cells += own
    pairs = zip(taken, access.shape, strict=True)
    cropped = any((s.start, s.stop) != (0, size) for s, size in pairs)
    return Cut(tuple(taken), tuple(around), access.fill or 0.0, tuple(flipped), tuple(cells),
               cropped, tuple(expanded), shifted)  # fmt: skip


def _places(terms: Sequence[Term], offset: int, extents: Shape) -> tuple[int, ...]:
    """The indices of all steps, with the first axis outermost."""
    found = np.array([offset])
    for axis, step in terms:
        found = np.add.outer(found, step * np.arange(extents[axis]))
    return tuple(int(i) for i in found.ravel())


def _cells(cell: Cell, extents: Shape) -> list[Cell]:
    """The cells of a dimension; axes that count blocks get a cell of their own."""
    terms = sorted(cell.terms, key=lambda term: -term[1])
    for number in range(1, len(terms)):
        block = terms[number - 1][1]
        outer, inner = terms[:number], terms[number:]
        first = cell.offset % block
        reach = first + sum(s * (extents[a] - 1) for a, s in inner)
        if reach >= block or cell.extent % block or any(s % block for _, s in outer):
            continue
        blocks = tuple((a, s // block) for a, s in outer)
        count = Cell(cell.extent // block, blocks, cell.offset // block)
        return [*_cells(count, extents), *_cells(Cell(block, tuple(inner), first), extents)]
    return [cell]


def _straight(extents: Shape, cut: Cut) -> frozenset[int]:
    """The axes that enumerate a cell of their own and appear in no other."""
    alone = {cell.terms[0][0] for cell in cut.cells if _is_axis(cell, extents)}
    return frozenset(alone) & _single(cut)


def _is_axis(cell: Cell, extents: Shape) -> bool:
    return (
        len(cell.terms) == 1
        and cell.terms[0][1] == 1
        and cell.offset == 0
        and cell.extent == extents[cell.terms[0][0]]
    )


def _single(cut: Cut) -> frozenset[int]:
    """The axes that appear in a single cell."""
    every = [a for cell in cut.cells for a in cell.axes]
    return frozenset(a for a in every if every.count(a) == 1)
