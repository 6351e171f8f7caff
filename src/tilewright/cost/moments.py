"""Numbers that the cost of each item of a nest depends on, in every kind of iteration.

In: the items and loops of a nest. Out: `Moments`, made once, whose numbers are evaluated for all
kinds and all tiles at once: a loop's index has an axis of its own, as long as the loop has kinds of
iterations, in front of that of the tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from tilewright.common.expr import Expr, Value, evaluate
from tilewright.common.straight_line import StraightLine, straight_line
from tilewright.cost.pipeline_types import Ints, Rows
from tilewright.cost.steps import CallStep, TransferStep
from tilewright.ir.nodes import For

Edges: TypeAlias = tuple[int, int]
"""How many of a loop's first and last iterations may each cost something of their own."""
Costed: TypeAlias = CallStep | TransferStep
Kinds: TypeAlias = tuple[int, ...]
"""The kinds of iterations of each loop that something depends on, 1 of the others."""


@dataclass(frozen=True)
class Numbers:
    """A call or transfer in its `kinds` of iterations. `places` says where among the numbers of
    `Moments` its own are: whether it happens, then the extents of a call, or shape and numbers of a
    transfer.
    """

    step: Costed
    kinds: Kinds
    places: tuple[int, ...]


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

    def numbers(self, env: Mapping[str, Value]) -> tuple[list[list[Value]], list[Value]]:
        """(the numbers of each item, the loops' extents): integers, arrays of tiles, or (kinds,
        tiles).
        """
        extents, at = list[Value](), dict(env)
        for d, (loop, edges) in enumerate(zip(self.loops, self.edges, strict=True)):
            extents.append(evaluate(loop.extent, at))
            axes = [1] * (len(self.loops) + 1)
            axes[d] = -1
            at[loop.var] = kind_indices(edges, extents[-1], axes)
        values, known = self.code(at), dict[tuple[int, Kinds], Value]()
        for item in self.items:
            for place in item.places:
                if (place, item.kinds) not in known:
                    known[place, item.kinds] = _over_kinds(values[place], item.kinds)
        items = [[known[place, item.kinds] for place in item.places] for item in self.items]
        return items, [_over_kinds(*pair) for pair in zip(extents, self.counts, strict=True)]


def moments_of(
    items: Sequence[tuple[Costed, Expr]],
    loops: Sequence[For],
    edges: Sequence[Edges],
    costs: Rows,
    counts: Rows,
) -> Moments:
    """The numbers of items, which stand under conditions, and of the loops' extents."""
    numbered: dict[Expr, int] = {}
    kinds = [front + 1 + back for front, back in edges]
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


def kind_indices(edges: Edges, count: Value, axes: Sequence[int]) -> Value:
    """Indices of a loop of `count` iterations, one for each kind of iteration, along the axis that
    is -1: the first ones, the middle of the others, the last ones.
    """
    front, back = edges
    if front == back == 0:
        return 0
    kinds = np.arange(front + 1 + back).reshape(axes)
    middle = np.maximum(front, (count - 1 + front - back) // 2)
    ahead = np.maximum(0, np.minimum(np.where(kinds < front, kinds, middle), count - 1))
    behind = np.maximum(count - back + (kinds - front - 1), 0)
    return np.where(kinds <= front, ahead, behind)


def _over_kinds(value: Value, kinds: Kinds) -> Value:
    """An array with an axis for each loop as (kinds, tiles); others are the same in all kinds."""
    if np.ndim(value) <= 1:
        return value
    *own, width = value.shape
    every = value
    if tuple(own) != kinds:
        every = np.empty((*kinds, width), value.dtype)
        every[...] = value
    return every.reshape(prod(kinds), width)


def _kinds(kinds: Sequence[int], strides: Ints) -> Kinds:
    return tuple(count if strides[d] else 1 for d, count in enumerate(kinds))


def _numbers(step: Costed) -> tuple[Expr, ...]:
    if isinstance(step, CallStep):
        return tuple(step.dims.values())
    return (*step.tensor_shape, *step.numbers)
