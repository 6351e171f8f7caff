"""The loop nest of an elementwise call: its rows, their distances in each loop, and whether rows
are done by vectors.

In: the loops of a call as `cost.nests` gives them, for one candidate or as arrays for many. Out:
`NestRows` of the same form. The values are transformed as the generated code is: loops of one
iteration vanish, and neighbouring loops that every operand walks as one are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.calls import Dims
from tilewright.targets.sw26010.gemm.shape import VECTOR_LANES

OUTER_LOOPS = 4
"""Loops of a routine around the rows and the loop over them."""


@dataclass(frozen=True)
class NestRows:
    """`rows` rows of `row` elements. `around` gives, for each loop outside the one over the rows,
    innermost first, its total iterations beyond the first. `by_vectors` is true where rows are done
    by vectors; bit i of `still` is set where operand i is constant along a row. `loops` counts all
    loops of the code, including that of a row.
    """

    row: Value
    rows: Value
    around: tuple[Value, ...]
    by_vectors: Value
    still: Value = 0
    loops: Value = 1

    @property
    def items(self) -> Value:
        """Items of a row: vectors, or elements."""
        return np.where(self.by_vectors, self.row // VECTOR_LANES, self.row)


@dataclass(frozen=True)
class Results:
    """The rows of a reduction's results. `steps` are the distances from results and from their
    first elements to the next ones along a row; `apart` tells if rows of either start whole vectors
    apart.
    """

    rows: NestRows
    steps: tuple[Value, Value]
    apart: tuple[Value, Value]


def has_loops(dims: Dims) -> bool:
    """True if the loops of the call are known."""
    return "loops" in dims


def rows_of(
    dims: Dims, operands: Sequence[int], *, beside: int | None = None, may_stay: bool = False
) -> NestRows:
    """The rows of the nest around these operands. With `may_stay`, all but the first may be
    constant along a row that is done by vectors. Loops over operand `beside` are outside the call.
    """
    return _walked(dims, operands, beside).rows(may_stay)


def results_of(dims: Dims) -> Results:
    """The rows of the nest around both operands of a reduction; by vectors if the rows of results
    are whole vectors and start whole vectors apart.
    """
    walk = _walked(dims, (0, 1), None)
    found = walk.rows(may_stay=False)
    by_vectors = np.equal(found.row % VECTOR_LANES, 0) & walk.apart.get(0, True)
    steps, apart = (
        tuple(values.get(operand, default) for operand in (0, 1))
        for values, default in ((walk.step, 0), (walk.apart, True))
    )
    return Results(replace(found, by_vectors=by_vectors), steps, apart)


def _walked(dims: Dims, operands: Sequence[int], beside: int | None) -> _Walk:
    walk = _Walk(dims, tuple(operands), beside)
    for number in range(int(np.max(dims["loops"])) - 1):
        walk.loop(number)
    return walk


class _Walk:
    """Builds the rows of a nest from the innermost loop outwards."""

    def __init__(self, dims: Dims, operands: tuple[int, ...], beside: int | None) -> None:
        self.dims, self.operands, self.beside = dims, operands, beside
        self.joining = (*operands, beside) if beside is not None else operands
        self.started: Value = False
        self.open: Value = False
        self.following: dict[int, Value] = {}
        """Per operand, the stride that lets the next loop merge with those inside."""
        self.place: Value = -1
        """Number of the loop under construction."""
        self.row: Value = 1
        self.total: Value = 1
        self.around: list[Value] = [1] * OUTER_LOOPS
        self.apart: dict[int, Value] = {}
        self.step: dict[int, Value] = {}

    def loop(self, number: int) -> None:
        """Add the next loop."""
        extent, is_open = self.dims[f"loop_{number}"], self.dims.get(f"open_{number}", 1) > 1
        steps = {o: self.dims[f"step_{number}_{o}"] - 1 for o in self.joining}
        there = is_open | np.not_equal(extent, 1)
        if self.beside is not None and np.any(steps[self.beside]):
            self._pass_on(there, extent, steps, is_open)
            return
        joined = self.started & ~np.asarray(self.open)
        for operand in self.joining:
            if operand in self.following:
                joined = joined & np.equal(steps[operand], self.following[operand])
        begins = there & ~np.asarray(joined)
        innermost = begins & np.equal(self.place, -1)
        for operand in self.operands:
            step, before = steps[operand], self.step.get(operand, 0)
            self.step[operand] = np.where(innermost, step, before)
            whole = np.equal(step % VECTOR_LANES, 0) | innermost | ~np.asarray(begins)
            self.apart[operand] = self.apart.get(operand, True) & whole
        self.place = self.place + begins
        self.total = self.total * extent
        self.row = self.row * np.where(np.less_equal(self.place, 0), extent, 1)
        for outer in range(min(number - 1, OUTER_LOOPS)):
            inside = np.greater_equal(self.place, 2 + outer)
            self.around[outer] = self.around[outer] * np.where(inside, extent, 1)
        self._pass_on(there, extent, steps, is_open)

    def _pass_on(
        self, there: Value, extent: Value, steps: dict[int, Value], is_open: Value
    ) -> None:
        for operand in self.joining:
            following = extent * steps[operand]
            before = self.following.get(operand)
            self.following[operand] = (
                following if before is None else np.where(there, following, before)
            )
        self.open = np.where(there, is_open, self.open)
        self.started = self.started | there

    def rows(self, may_stay: bool) -> NestRows:
        """The rows of the loops added so far."""
        vectors: Value = np.equal(self.row % VECTOR_LANES, 0)
        still: Value = 0
        for operand in self.operands:
            step = self.step.get(operand, 0)
            start = np.equal(self.dims.get(f"start_{operand}", 1), 1)
            contiguous = np.equal(step, 1) & self.apart.get(operand, True) & start
            if may_stay and operand:
                same = np.equal(step, 0) & np.greater_equal(self.place, 0)
                still = still + same * (1 << operand - 1)
                contiguous = contiguous | same
            vectors = vectors & contiguous
        around = tuple(np.maximum(count - 1, 0) for count in self.around)
        rows, loops = self.total // np.maximum(self.row, 1), self.place + 1
        return NestRows(self.row, rows, around, vectors, still, loops)
