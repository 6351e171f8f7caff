"""Signatures of loop iterations: which ones behave alike, computed for all iterations at once.

In: the expressions in a loop's body that determine extents, conditions and slots, and the values of
the outer variables. Out: one number per iteration; equal numbers mean equal values of every such
expression in every iteration of the inner loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.common.classes import classes_of_table
from tilewright.common.errors import ProgramError
from tilewright.common.expr import BinaryExpr, Const, Expr, Var, binary, evaluate, free_vars
from tilewright.common.straight_line import straight_line

Numbers: TypeAlias = npt.NDArray[np.int64]
Env: TypeAlias = Mapping[str, int]

TABLE_LIMIT = 1 << 18
"""Most values tabulated for one expression; beyond, the values of its variables stand for them."""

CACHED_ITERATIONS = 4096
"""Most iterations of a loop whose tables are kept; those of longer loops are computed again."""


@dataclass(frozen=True)
class Timed:
    """An expression that timing depends on, and the inner loops that bind its variables."""

    expr: Expr
    loops: tuple[tuple[str, Expr], ...] = ()

    def inside(self, var: str, extent: Expr) -> Timed:
        """This expression as seen from outside the loop over `var`.

        A slot counts through nested loops modulo the copies of its buffer. There the outer loops'
        share of the sum, modulo the copies, decides, so no table over this loop is needed.
        """
        used = free_vars(self.expr).union(*(free_vars(e) for _, e in self.loops))
        if var not in used:
            return self
        match self.expr:
            case BinaryExpr("%", index, Const(modulus)) if not self.loops:
                outside = _without(index, var)
                if outside is not None:
                    return Timed(binary("%", outside, modulus))
            case _:
                pass
        return Timed(self.expr, ((var, extent), *self.loops))

    @cached_property
    def outer_symbols(self) -> frozenset[str]:
        """Symbols that outer loops bind."""
        used = free_vars(self.expr).union(*(free_vars(e) for _, e in self.loops))
        return used - {var for var, _ in self.loops}


def _without(index: Expr, var: str) -> Expr | None:
    """`index` without its terms in `var`; None if `var` occurs other than in terms of a sum."""
    match index:
        case Const() | Var():
            return Const(0) if index == Var(var) else index
        case BinaryExpr("+" | "-" as sign, a, b):
            left, right = _without(a, var), _without(b, var)
            return None if left is None or right is None else binary(sign, left, right)
        case BinaryExpr("*", a, Const() as factor) | BinaryExpr("*", Const() as factor, a):
            rest = _without(a, var)
            return None if rest is None else binary("*", rest, factor)
        case _:
            return None if var in free_vars(index) else index


class Signatures:
    """Signatures of one loop for any values of the outer variables; equal numbers mean equal
    behaviour across these, too.
    """

    def __init__(self, timed: tuple[Timed, ...], var: str) -> None:
        self._var = var
        self._plain = straight_line([t.expr for t in timed if not t.loops])
        self._nested = [t for t in timed if t.loops]
        self._moving = [var in t.outer_symbols for t in self._nested]
        self._symbols = [tuple(sorted(t.outer_symbols - {var})) for t in self._nested]
        self._outside = sorted(frozenset().union(*(t.outer_symbols for t in timed)) - {var})
        self._tables: dict[tuple[int, int, tuple[int, ...]], _Table] = {}
        self._alike: dict[tuple[tuple[bool, int, bytes], ...], int] = {}
        self._known: dict[bytes, int] = {}
        self._numbers: dict[tuple[int, ...], Numbers] = {}

    def __call__(self, iterations: int, env: Env) -> Numbers:
        """One number per iteration, for the outer variables' values in `env`."""
        key = (iterations, *[env[s] for s in self._outside])
        found = self._numbers.get(key)
        if found is None:
            found = self._classify(iterations, env)
            if iterations <= CACHED_ITERATIONS:
                self._numbers[key] = found
        return found

    def _table(self, place: int, iterations: int, env: Env) -> _Table:
        key = (place, iterations, tuple([env[s] for s in self._symbols[place]]))
        found = self._tables.get(key)
        if found is None:
            found = _table(self._nested[place], self._var, iterations, env)
            if iterations <= CACHED_ITERATIONS:
                self._tables[key] = found
        return found

    def _classify(self, iterations: int, env: Env) -> Numbers:
        with np.errstate(divide="ignore"):
            plain = self._plain({**env, self._var: np.arange(iterations)})
        nested = [self._table(place, iterations, env) for place in range(len(self._nested))]
        of = list(zip(nested, self._moving, strict=True))
        alike = tuple([table.alike(moves) for table, moves in of])
        columns = [self._alike.setdefault(alike, len(self._alike)), *plain]
        values = [table.values for table, moves in of if moves]
        rows = np.empty((iterations, len(columns) + sum(v.shape[1] for v in values)), np.int64)
        for place, column in enumerate(columns):
            rows[:, place] = column
        if values:
            np.concatenate(values, axis=1, out=rows[:, len(columns) :])
        if iterations <= CACHED_ITERATIONS:
            return self._numbered(rows)
        code, first = classes_of_table(np.ascontiguousarray(rows.T))
        return self._numbered(rows[first])[code]

    def _numbered(self, rows: Numbers) -> Numbers:
        """Number of each row; equal rows have one number across calls."""
        known, content, width = self._known, rows.tobytes(), rows.shape[1] * rows.itemsize
        keys = [content[at : at + width] for at in range(0, len(content), width)]
        return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


@dataclass(frozen=True)
class _Table:
    """Values that distinguish the iterations for one expression.

    `values` has shape (iterations, inner iterations), with 1 row if they do not change. They are
    the expression's own or, if `symbolic`, its variables': finer than needed, never wrong.
    """

    values: Numbers
    symbolic: bool = False

    def alike(self, moves: bool) -> tuple[bool, int, bytes]:
        """Key of what all iterations share: not the values if it `moves`, a row per iteration."""
        return self.symbolic, self.values.shape[1], b"" if moves else self._content

    @cached_property
    def _content(self) -> bytes:
        return self.values.tobytes()


def _table(t: Timed, var: str, iterations: int, env: Env) -> _Table:
    symbols = t.outer_symbols
    count = iterations if var in symbols else 1
    extents = _extents(t, env)
    if extents is None or (extents and count * prod(extents) > TABLE_LIMIT):
        return _variables(symbols, var, count, env)
    if count == 1 and not extents:
        return _Table(np.array([[evaluate(t.expr, {**env, var: 0})]], np.int64))
    bound: dict[str, Any] = dict(env)
    for i, ((name, _), extent) in enumerate(zip(t.loops, extents, strict=True)):
        bound[name] = _axis(extent, 1 + i, len(extents))
    if count > 1:
        bound[var] = _axis(iterations, 0, len(extents))
    elif var in symbols:
        bound[var] = 0
    try:
        with np.errstate(divide="ignore"):
            values = np.asarray(evaluate(t.expr, bound), np.int64)
    except ZeroDivisionError:
        return _variables(symbols, var, count, env)
    width = prod(extents)
    whole = values if values.size == count * width else np.broadcast_to(values, (count, *extents))
    return _Table(whole.reshape(count, width))


def _extents(t: Timed, env: Env) -> tuple[int, ...] | None:
    """Iterations of the inner loops; None if they change with the loop itself."""
    try:
        return tuple(max(int(evaluate(e, env)), 0) for _, e in t.loops)
    except ProgramError:
        return None


def _variables(symbols: frozenset[str], var: str, count: int, env: Env) -> _Table:
    outer = np.array([env[s] for s in sorted(symbols - {var})], np.int64)
    fixed = np.broadcast_to(outer, (count, len(outer)))
    own = np.arange(count)[:, None] if var in symbols else np.zeros((count, 0), np.int64)
    return _Table(np.concatenate([own, fixed], axis=1), symbolic=True)


def _axis(length: int, position: int, inner: int) -> Numbers:
    shape = [1] * (inner + 1)
    shape[position] = length
    return np.arange(length).reshape(shape)


class Periods:
    """Lengths over which a sequence of signatures repeats."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._changes: dict[int, Numbers] = {}

    def repeats(self, first: int, period: int) -> int:
        """Number of immediate repetitions of numbers[first : first + period]."""
        numbers, start = self._numbers, first + period
        if not np.array_equal(numbers[first:start], numbers[start : start + period]):
            return 0
        if period not in self._changes:
            self._changes[period] = np.flatnonzero(numbers[period:] != numbers[:-period])
        changes = self._changes[period]
        place = int(np.searchsorted(changes, first))
        end = int(changes[place]) if place < len(changes) else len(numbers) - period
        return (end - first) // period
