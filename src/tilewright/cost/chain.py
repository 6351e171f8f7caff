"""A staged program as a chain of loops with items at every level: the form in which it is priced.

In: a staged-stage program of one nest. Out: `Prepared`, made once and priced many times: the loops,
the transfers and
calls before and after the loop inside at each level, and on which loops each one's cost depends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.common.errors import ProgramError
from tilewright.common.expr import (
    OPERATIONS,
    Binary,
    Const,
    Expr,
    Value,
    Var,
    free_vars,
)
from tilewright.cost.timing import call_dims
from tilewright.ir.nodes import Call, For, If, Program, Stmt, Transfer

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Item:
    """A call or transfer, the condition it stands under, and where it stands in the chain of loops.

    `dims` are a call's extents; `relevant` the loops that its cost depends on; `buffer` the number
    of a transfer's
    buffer.
    """

    stmt: Call | Transfer
    condition: Expr
    level: int
    after: bool
    dims: tuple[tuple[str, Expr], ...] = ()
    relevant: tuple[int, ...] = ()
    buffer: int = 0

    def symbols(self) -> frozenset[str]:
        """Symbols that the cost depends on: extents and conditions, never addresses."""
        found = free_vars(self.condition)
        match self.stmt:
            case Transfer(_, _, ranges):
                return found.union(*(free_vars(r.extent) for r in ranges))
            case Call():
                return found.union(*(free_vars(e) for _, e in self.dims))


@dataclass(frozen=True)
class Layout:
    """Item numbers at each level before and after its loop, and the cost rows of each item."""

    before: Ints
    after: Ints
    base: Ints
    strides: Ints


@dataclass(frozen=True, eq=False)
class Prepared:
    """A nest ready to be priced; `kinds[d]`: how many kinds of iterations loop d has (1 to 3)."""

    program: Program
    loops: tuple[str, ...]
    extents: tuple[Expr, ...]
    kinds: tuple[int, ...]
    items: tuple[Item, ...]
    layout: Layout


def prepare(program: Program) -> Prepared:
    """Take a nest apart; ProgramError where its loops are not one chain."""
    loops, found = _chain(program.body)
    names = [f.var for f in loops]
    buffers = {b.name: i for i, b in enumerate(program.buffers)}
    kinds = [_kinds(name, found) for name in names]
    items = [_completed(item, names, kinds, buffers) for item in _ordered(found)]
    layout = _layout(items, kinds)
    return Prepared(
        program, tuple(names), tuple(f.extent for f in loops), tuple(kinds), tuple(items), layout
    )


def _chain(body: tuple[Stmt, ...]) -> tuple[list[For], list[Item]]:
    """The loops of a nest, outermost first, and the items at every level."""
    loops: list[For] = []
    items: list[Item] = []
    here: tuple[Stmt, ...] | None = body
    while here is not None:
        level, inner = len(loops), None
        for stmt in here:
            if isinstance(stmt, For):
                if inner is not None:
                    raise ProgramError("an estimate needs one chain of loops, not two side by side")
                inner = stmt
                loops.append(stmt)
            else:
                items += _flat(stmt, Const(1), level, inner is not None)
        here = inner.body if inner else None
    return loops, items


def _flat(stmt: Stmt, condition: Expr, level: int, after: bool) -> Iterator[Item]:
    match stmt:
        case If(test, then, orelse):
            for part, holds in ((then, test), (orelse, 1 - test)):
                for inner in part:
                    yield from _flat(inner, condition * holds, level, after)
        case Call():
            yield Item(stmt, condition, level, after, tuple(call_dims(stmt).items()))
        case Transfer():
            yield Item(stmt, condition, level, after)
        case _:
            return


def _ordered(items: Sequence[Item]) -> list[Item]:
    return sorted(items, key=lambda i: (i.level, i.after))


def _completed(
    item: Item, names: Sequence[str], kinds: Sequence[int], buffers: Mapping[str, int]
) -> Item:
    symbols = item.symbols()
    relevant = tuple(d for d in range(item.level) if names[d] in symbols and kinds[d] > 1)
    buffer = buffers[item.stmt.buffer] if isinstance(item.stmt, Transfer) else 0
    return Item(item.stmt, item.condition, item.level, item.after, item.dims, relevant, buffer)


def _kinds(var: str, items: Sequence[Item]) -> int:
    """1: all iterations cost the same, 2: the last may differ, 3: the first may too."""
    touched = [i for i in items if var in i.symbols()]
    if any(_tests_zero(i.condition, var) for i in touched):
        return 3
    return 2 if touched else 1


def _tests_zero(condition: Expr, var: str) -> bool:
    """Whether `var == 0` is part of the condition."""
    match condition:
        case Binary("==", Var(name), Const(0)):
            return name == var
        case Binary(_, a, b):
            return _tests_zero(a, var) or _tests_zero(b, var)
        case _:
            return False


def kind_indices(kinds: int, count: Value) -> list[Value]:
    """A loop index that stands for each kind of iteration."""
    if kinds == 3:
        return [0, np.minimum(1, count - 1), count - 1]
    return [0, count - 1] if kinds == 2 else [0]


def _layout(items: Sequence[Item], kinds: Sequence[int]) -> Layout:
    base, strides, row = [], [], 0
    for item in items:
        base.append(row)
        steps, step = [0] * max(1, len(kinds)), 1
        for d in reversed(item.relevant):
            steps[d] = step
            step *= kinds[d]
        strides.append(steps)
        row += prod(kinds[d] for d in item.relevant)
    spans = [[_span(items, d, after) for d in range(len(kinds) + 1)] for after in (False, True)]
    return Layout(
        np.array(spans[0], np.int64),
        np.array(spans[1], np.int64),
        np.array(base, np.int64),
        np.array(strides, np.int64).reshape(len(items), max(1, len(kinds))),
    )


def _span(items: Sequence[Item], level: int, after: bool) -> tuple[int, int]:
    own = [i for i, item in enumerate(items) if (item.level, item.after) == (level, after)]
    return (own[0], own[-1] + 1) if own else (0, 0)


@dataclass
class Values:
    """Evaluates expressions, each once per kind of iteration that it depends on.

    `place` maps loop numbers to the kind of iteration to evaluate for; other loops are at their
    first.
    """

    prepared: Prepared
    env: Mapping[str, Any]
    indices: list[list[Value]] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)
    memo: dict[tuple[Expr, tuple[int, ...]], Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._number = {name: d for d, name in enumerate(self.prepared.loops)}

    def __call__(self, e: Expr) -> Value:
        if isinstance(e, Const):
            return e.value
        if isinstance(e, Var):
            return self._symbol(e.name)
        used = [self._number[v] for v in free_vars(e) if v in self._number]
        key = (e, tuple(self.place.get(d, 0) for d in sorted(used)))
        if key not in self.memo:
            self.memo[key] = OPERATIONS[e.op](self(e.a), self(e.b))
        return self.memo[key]

    def _symbol(self, name: str) -> Value:
        if name in self._number:
            d = self._number[name]
            return self.indices[d][self.place[d]] if d in self.place else 0
        if name not in self.env:
            raise ProgramError(f"symbol {name!r} has no value")
        return self.env[name]
