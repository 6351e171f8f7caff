"""Numbers that the cost of each item of a nest depends on, in every kind of iteration.

In: the items and loops of a nest. Out: `Moments`, made once, whose numbers are evaluated for all
kinds and all tiles at once: a loop's index has an axis of its own, as long as the loop has kinds of
iterations, in front of that of the tiles.
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
"""The kinds of iterations of each loop that something depends on, 1 of the others."""

_MOST_KEPT = 1 << 14
_PLACES_TOLD_APART = 7
"""Iterations of a loop over a kernel's rows or columns, each of which is a kind of its own: as many
as usual kernels have. Of more only the last is told from the others.
"""


class Edges(NamedTuple):
    """How many of a loop's first and last iterations may each cost something of their own, and of
    the others as many as repeat one after the other.
    """

    front: int
    back: int
    period: int = 1

    @property
    def kinds(self) -> int:
        """How many kinds of iterations there are."""
        return self.front + self.period + self.back


@dataclass(frozen=True)
class Numbers:
    """A call or transfer in its `kinds` of iterations. `places` says where among the numbers of
    `Moments` its own are: whether it happens, then the extents of a call, or shape and numbers of a
    transfer.
    """

    step: Costed
    kinds: Kinds
    places: tuple[int, ...]


class BoundLoops(NamedTuple):
    """Loops of nests that have the same ones in any order, with values for all symbols: the kinds
    of `order[d]` lie along axis d. `made` are the operations on these values so far.
    """

    order: tuple[str, ...]
    extents: Mapping[str, Value]
    values: Mapping[str, Value]
    made: Made


@dataclass(frozen=True)
class Moments:
    """The numbers of a nest: `items` in the order of `Outline.costs`, `counts` are the kinds of
    iterations that each loop's extent depends on.
    """

    loops: tuple[For, ...]
    edges: tuple[Edges, ...]
    code: StraightLine
    items: tuple[Numbers, ...]
    counts: tuple[Kinds, ...]

    @cached_property
    def alike(self) -> frozenset[tuple[str, Expr, Edges]]:
        """The loops, whatever their order."""
        pairs = zip(self.loops, self.edges, strict=True)
        return frozenset((loop.var, loop.extent, edges) for loop, edges in pairs)

    def bind(self, env: Mapping[str, Value]) -> BoundLoops:
        """The loops in this nest's order."""
        extents, at = dict[str, Value](), dict(env)
        for d, (loop, edges) in enumerate(zip(self.loops, self.edges, strict=True)):
            extents[loop.var] = evaluate(loop.extent, at)
            axes = [1] * (len(self.loops) + 1)
            axes[d] = -1
            at[loop.var] = kind_indices(edges, extents[loop.var], axes)
        return BoundLoops(tuple(extents), extents, at, {})

    def numbers(self, loops: BoundLoops) -> tuple[list[list[Value]], list[Value]]:
        """(the numbers of each item, the loops' extents): integers, arrays of tiles, or (kinds of
        each loop, tiles) with one kind where they do not depend on a loop.
        """
        values = self.code.sharing(loops.values, loops.made)
        numbers = [[values[place] for place in item.places] for item in self.items]
        return numbers, [loops.extents[loop.var] for loop in self.loops]

    def product_changes(self, env: Mapping[str, Value]) -> Value:
        """Products in a run whose extents, and so their routines, are not those of the one before,
        at most: where those of some turn of a loop differ, there are two in each turn of the loops
        around it.
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
    """The numbers of items, which stand under conditions, and of the loops' extents."""
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
    """The edges of a loop by the symbols that items' costs depend on, and their conditions.

    (0, 0): all iterations cost the same, (0, 1): the last may differ, (1, 1): the first may too;
    more last ones where as many conditions ask for one iteration each, or one asks for a later
    iteration's sake. Where a kernel stands on an image's edge may differ in each of its places.
    What repeats after several iterations begins behind as many.

    A condition on the difference of two loops holds for a window of the one that moves with the
    other: every iteration of the shorter one is a kind of its own, of the other as many at both
    ends.
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
    """True if the condition compares sums of which both loops are terms."""
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
    """How many iterations ahead of `var` the one is that the condition asks for."""
    match condition:
        case BinaryExpr("<", BinaryExpr("+", Var(name), Const(more)), _) if name == var:
            return more
        case BinaryExpr(_, a, b) if var in free_vars(condition):
            return max(_ahead(a, var), _ahead(b, var))
        case _:
            return 0


def _kinds_of(value: Value) -> tuple[int, ...]:
    """The axes of the kinds of loops' iterations."""
    return tuple(range(np.ndim(value) - 1))


def _differ(extent: Value, loop: int) -> Value:
    """True for tiles of which an extent is not the same in all turns of a loop."""
    axes = _kinds_of(extent)
    return (extent != extent.take([0], axis=loop)).any(axis=axes) if axes else False


def kind_indices(edges: Edges, count: Value, axes: Sequence[int]) -> Value:
    """Indices of a loop of `count` iterations, one for each kind of iteration, along the axis that
    is -1: the first ones, those in the middle of the others, the last ones.
    """
    front, back, turns = edges
    if edges.kinds == 1 or np.all(np.equal(count, 1)):
        return 0
    kinds = np.arange(edges.kinds).reshape(axes)
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
