"""Numbers that the cost of each item of a nest depends on, in every kind of iteration.

In: the items and loops of a nest. Out: `Moments`, made once, whose numbers are evaluated for all
kinds and all tiles at once. Each loop's index has an axis of its own, one element per kind of
iteration; the last axis is that of the tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import accumulate
from math import lcm
from operator import mul
from typing import NamedTuple, TypeAlias

import numpy as np

from tilewright.common.expr import (
    BinaryExpr,
    Const,
    Expr,
    Value,
    Var,
    evaluate,
    free_vars,
    period,
)
from tilewright.common.straight_line import Made, StraightLine, straight_line
from tilewright.cost.pipeline_types import Ints, Rows
from tilewright.cost.steps import CallStep, TransferStep
from tilewright.ir.nodes import For
from tilewright.ir.primitives import MatrixProduct

Costed: TypeAlias = CallStep | TransferStep
Kinds: TypeAlias = tuple[int, ...]
"""Number of kinds of iterations of each loop that a value depends on, 1 for the other loops."""

_MOST_KEPT = 1 << 14
_PLACES_TOLD_APART = 7
"""Most iterations of a constant loop that are each a kind of their own: the rows or columns of
usual convolution kernels. In longer loops only the last iteration is told apart.
"""


class Edges(NamedTuple):
    """Kinds of a loop's iterations: the first `front` and the last `back` may each have a cost of
    their own; the costs of those between repeat with `period`.
    """

    front: int
    back: int
    period: int = 1

    @property
    def kinds(self) -> int:
        """Number of kinds of iterations."""
        return self.front + self.period + self.back


@dataclass(frozen=True)
class Numbers:
    """A call or transfer in its `kinds` of iterations. `places` are the indices of its numbers in
    the results of `Moments.code`: whether it happens, then the extents of a call, or the tensor's
    shape and the numbers of a transfer.
    """

    step: Costed
    kinds: Kinds
    places: tuple[int, ...]


class BoundLoops(NamedTuple):
    """The loops of nests that have the same ones in any order, with values for all symbols. The
    kinds of loop `order[d]` lie along axis d. `made` caches operations on these values.
    """

    order: tuple[str, ...]
    extents: Mapping[str, Value]
    values: Mapping[str, Value]
    made: Made


@dataclass(frozen=True)
class Moments:
    """The numbers of a nest: `items` in the order of `Outline.costs`; `counts[d]` are the kinds of
    iterations that the extent of loop d depends on.
    """

    loops: tuple[For, ...]
    edges: tuple[Edges, ...]
    code: StraightLine
    items: tuple[Numbers, ...]
    counts: tuple[Kinds, ...]

    @cached_property
    def alike(self) -> frozenset[tuple[str, Expr, Edges]]:
        """Key of nests with the same loops in any order."""
        pairs = zip(self.loops, self.edges, strict=True)
        return frozenset((loop.var, loop.extent, edges) for loop, edges in pairs)

    def bind(self, env: Mapping[str, Value]) -> BoundLoops:
        """Values of the loops' extents and indices under `env`, in this nest's order of loops."""
        extents, at = dict[str, Value](), dict(env)
        for d, (loop, edges) in enumerate(zip(self.loops, self.edges, strict=True)):
            extents[loop.var] = evaluate(loop.extent, at)
            axes = [1] * (len(self.loops) + 1)
            axes[d] = -1
            at[loop.var] = kind_indices(edges, extents[loop.var], axes)
        return BoundLoops(tuple(extents), extents, at, {})

    def numbers(self, loops: BoundLoops) -> tuple[list[list[Value]], list[Value]]:
        """(numbers of each item, extents of the loops): integers or arrays of shape (tiles,) or
        (kinds of each loop, tiles), with one kind for a loop that they do not depend on.
        """
        values = self.code.sharing(loops.values, loops.made)
        numbers = [[values[place] for place in item.places] for item in self.items]
        return numbers, [loops.extents[loop.var] for loop in self.loops]

    def product_changes(self, env: Mapping[str, Value]) -> Value:
        """Upper bound on how often a product's extents, and so its routine, differ from those of
        the product before: where the extents differ in some turn of a loop, twice in each turn of
        the loops around it.
        """
        items, counts = self.numbers(self.bind(env))
        turns = [*accumulate((np.max(c, axis=_kinds_of(c)) for c in counts), mul, initial=1)]
        found: Value = 0
        for own, (holds, *extents) in zip(self.items, items, strict=True):
            step = own.step
            if isinstance(step, CallStep) and isinstance(step.stmt.primitive, MatrixProduct):
                happens = np.any(holds, axis=_kinds_of(holds))
                for d in np.flatnonzero(np.greater(own.kinds, 1)).tolist():
                    differ = reduce(np.logical_or, (_differ(e, d) for e in extents))
                    found = found + 2 * (happens & differ) * turns[d]
        return found


def moments_of(
    items: Sequence[tuple[Costed, Expr]],
    loops: Sequence[For],
    edges: Sequence[Edges],
    costs: Rows,
    counts: Rows,
) -> Moments:
    """The `Moments` of (step, condition) `items` inside `loops`, with the rows of their costs."""
    numbered: dict[Expr, int] = {}
    kinds = [own.kinds for own in edges]
    found = [
        Numbers(
            step,
            _kinds(kinds, strides),
            tuple(numbered.setdefault(e, len(numbered)) for e in (condition, *_numbers(step))),
        )
        for (step, condition), strides in zip(items, costs.strides, strict=True)
    ]
    extents = tuple(_kinds(kinds, strides) for strides in counts.strides)
    code = straight_line(list(numbered))
    return Moments(tuple(loops), tuple(edges), code, tuple(found), extents)


def edges_of(
    loop: For, loops: Sequence[For], items: Sequence[tuple[frozenset[str], Expr]]
) -> Edges:
    """The edges of a loop, from the symbols that each item's cost depends on, and its condition.

    (0, 0): all iterations cost the same; (0, 1): the last may differ; (1, 1): the first, too. There
    are more last kinds where several conditions select one iteration each, or where one looks ahead
    to a later iteration. In a short constant loop, such as one over a convolution kernel, every
    iteration is a kind. Costs that repeat with a period have as many first kinds.

    A condition on the difference of two loops holds for a window of the one that moves with the
    other. Then every iteration of the shorter loop is a kind, and as many at both ends of the
    longer one.
    """
    touched = [condition for symbols, condition in items if loop.var in symbols]
    others = [f for f in loops if any(_meet(c, loop, f) for c in touched if f != loop)]
    known = [f.extent.value for f in (loop, *others) if isinstance(f.extent, Const)]
    if others and known:
        turns = min(known) - 1
        return Edges(turns, 0 if loop.extent == Const(min(known)) else turns)
    tests = frozenset[Expr]().union(*(_tested(c, loop.var) for c in touched))
    repeated = lcm(*(period(c, loop.var) for c in touched))
    last = 1 + max((_ahead(c, loop.var) for c in touched), default=0)
    if Const(0) in tests or len(tests) > 1 or repeated > 1:
        front = repeated if repeated > 1 else int(Const(0) in tests)
        return Edges(front, max(last, len(tests - {Const(0)})), repeated)
    if touched and isinstance(loop.extent, Const) and 2 < loop.extent.value <= _PLACES_TOLD_APART:
        return Edges(loop.extent.value - 1, 0)
    shortened = any(loop.var in free_vars(f.extent) for f in loops)
    return Edges(0, last if touched or shortened else 0)


def _meet(condition: Expr, one: For, other: For) -> bool:
    """True if the condition compares sums in which both loops' indices are terms."""
    if not {one.var, other.var} <= free_vars(condition):
        return False
    match condition:
        case BinaryExpr("<" | "<=", a, b):
            return {one.var, other.var} <= _terms(a) | _terms(b)
        case BinaryExpr("and" | "*", a, b):
            return _meet(a, one, other) or _meet(b, one, other)
        case _:
            return False


def _terms(e: Expr) -> frozenset[str]:
    """The symbols that are terms of a sum."""
    match e:
        case Var(name):
            return frozenset((name,))
        case BinaryExpr("+" | "-", a, b):
            return _terms(a) | _terms(b)
        case _:
            return frozenset()


@lru_cache(maxsize=_MOST_KEPT)
def _tested(condition: Expr, var: str) -> frozenset[Expr]:
    """Values that the condition compares `var` with."""
    match condition:
        case BinaryExpr("==", Var(name), value) if name == var:
            return frozenset((value,))
        case BinaryExpr(_, a, b) if var in free_vars(condition):
            return _tested(a, var) | _tested(b, var)
        case _:
            return frozenset()


@lru_cache(maxsize=_MOST_KEPT)
def _ahead(condition: Expr, var: str) -> int:
    """Number of iterations that the condition looks ahead of `var`, as in `var + 1 < n`."""
    match condition:
        case BinaryExpr("<", BinaryExpr("+", Var(name), Const(more)), _) if name == var:
            return more
        case BinaryExpr(_, a, b) if var in free_vars(condition):
            return max(_ahead(a, var), _ahead(b, var))
        case _:
            return 0


def _kinds_of(value: Value) -> tuple[int, ...]:
    """The axes of the loops' kinds: all except the last, that of the tiles."""
    return tuple(range(np.ndim(value) - 1))


def _differ(extent: Value, loop: int) -> Value:
    """(tiles,): true where an extent differs between turns of a loop."""
    axes = _kinds_of(extent)
    return (extent != extent.take([0], axis=loop)).any(axis=axes) if axes else False


def kind_indices(edges: Edges, count: Value, axes: Sequence[int]) -> Value:
    """One iteration index for each kind, in a loop of `count` iterations: the first ones, one
    period in the middle, the last ones. `axes` is their shape, with -1 at the loop's axis.
    """
    front, back, turns = edges
    if edges.kinds == 1 or np.all(np.equal(count, 1)):
        return 0
    kinds = np.arange(edges.kinds).reshape(axes)
    # half-way through the repeating iterations, at a multiple of their period
    whole = np.maximum(0, count - front - back - turns) // 2 // turns * turns
    ahead = np.maximum(0, np.minimum(np.where(kinds < front, kinds, kinds + whole), count - 1))
    behind = np.maximum(count - back + (kinds - front - turns), 0)
    return np.where(kinds < front + turns, ahead, behind)


def _kinds(kinds: Sequence[int], strides: Ints) -> Kinds:
    return tuple(count if strides[d] else 1 for d, count in enumerate(kinds))


def _numbers(step: Costed) -> tuple[Expr, ...]:
    if isinstance(step, CallStep):
        return tuple(step.dims.values())
    return (*step.tensor_shape, *step.numbers)
