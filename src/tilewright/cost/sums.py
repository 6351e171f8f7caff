"""Cycles of all items of a nest added up, whatever overlaps.

In: a nest, what its items cost in each kind of iteration, and how often its loops run: integers,
arrays of tiles, or (kinds of each loop, tiles) with one kind where they do not depend on a loop.
Out: sums for each tile, by arrays, with nothing to compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.chain import Prepared
from tilewright.cost.moments import Costed, Edges, Kinds
from tilewright.cost.pipeline_types import Flags, Floats, Ints
from tilewright.cost.steps import CallStep
from tilewright.ir.primitives import MatrixProduct

Cycles = tuple[Value, ...]
"""(of service or of the call, of issue, `own` and `apart` as of `Cost`); where cores keep a window
of operations in flight its other four instead of the fourth.
"""


class CycleSums(NamedTuple):
    """Cycles of all items of each tile, of its calls, and of products among them."""

    every: Floats
    calls: Floats
    products: Floats

    @property
    def transfers(self) -> Floats:
        """Cycles of all transfers."""
        return self.every - self.calls


@dataclass(frozen=True, eq=False)
class NestCosts:
    """Of each item whether it happens, and its cycles where it does; how often each loop runs."""

    items: Sequence[tuple[Value, Cycles]]
    counts: Sequence[Value]

    def service(self, number: int) -> Value:
        """The cycles of an item, zero where it does not happen."""
        holds, cycles = self.items[number]
        return cycles[0] * holds

    def of(self, tiles: Ints) -> NestCosts:
        """The costs of some tiles."""
        items = [
            (_of_tiles(holds, tiles), tuple(_of_tiles(c, tiles) for c in cycles))
            for holds, cycles in self.items
        ]
        return NestCosts(items, [_of_tiles(count, tiles) for count in self.counts])


def _of_tiles(value: Value, tiles: Ints) -> Value:
    single = not isinstance(value, np.ndarray) or value.shape[-1] == 1
    return value if single else value[..., tiles]


def item_sums(prepared: Prepared, costs: NestCosts, uniform: Flags) -> CycleSums:
    """The sums of a nest; where loops are `uniform` their iterations are taken together. Where
    nothing overlaps, as the core makes all transfers itself, those of all items are what
    `cost.pipeline` comes to without an engine.
    """
    width = uniform.shape[1]
    services = [costs.service(number) for number in range(len(costs.items))]
    times = _times(prepared, costs.counts, uniform)
    bodies = dict[tuple[int, tuple[int, ...]], Floats]()
    sums = CycleSums(*np.zeros((3, width)))
    for item, own, service in zip(prepared.items, prepared.moments.items, services, strict=True):
        body = times[item.level]
        alike = tuple(d for d, kinds in enumerate(own.kinds) if kinds == 1)
        if (item.level, alike) not in bodies:
            bodies[item.level, alike] = body.sum(alike, keepdims=True)
        told_apart = _told_apart(service, own.kinds, body)
        cycles = (bodies[item.level, alike] * told_apart).reshape(-1, width).sum(0)
        for total, counts in zip(sums, _counting(item.step), strict=True):
            total += cycles if counts else 0.0
    return sums


def _counting(step: Costed) -> tuple[bool, bool, bool]:
    """Which of the sums a step counts in."""
    if not isinstance(step, CallStep):
        return True, False, False
    return True, True, isinstance(step.stmt.primitive, MatrixProduct)


def uniform_loops(costs: NestCosts, width: int) -> Flags:
    """(loops, tiles): true where all items and the loops inside take the same in all iterations of
    a loop.
    """
    uniform = np.ones((len(costs.counts), width), np.bool_)
    told = (
        n for n, (holds, own) in enumerate(costs.items) if max(np.ndim(holds), np.ndim(own[0])) > 1
    )
    for value in (*map(costs.service, told), *costs.counts):
        outer = tuple(range(np.ndim(value) - 1))
        for d in outer:
            if value.shape[d] > 1:
                first, others = (
                    value[(*(slice(None),) * d, part)] for part in (slice(1), slice(1, None))
                )
                uniform[d] &= (others == first).all(axis=outer)
    return uniform


def _times(prepared: Prepared, counts: Sequence[Value], uniform: Flags) -> list[Floats]:
    """How often the body inside the outermost d loops runs, for each d, (kinds of each loop,
    tiles); of a loop whose kinds no tile tells apart there is one.
    """
    loops, width = len(prepared.loops), uniform.shape[1]
    found = [np.ones((*(1,) * loops, width))]
    for d, (kinds, edges) in enumerate(zip(prepared.moments.counts, prepared.edges, strict=True)):
        count = _told_apart(counts[d], kinds, found[d])
        found.append(found[d] * of_kinds(count, edges, uniform[d], d))
    return found


def _told_apart(value: Value, kinds: Kinds, body: Floats) -> Value:
    """A value of the kinds that a body tells apart."""
    if np.ndim(value) <= 1:
        return np.broadcast_to(value, (*(1,) * len(kinds), body.shape[-1]))
    pairs = zip(body.shape, kinds, strict=False)
    return value[tuple(slice(told if own > 1 else None) for told, own in pairs)]


def of_kinds(count: Floats, edges: Edges, uniform: Flags, axis: int) -> Floats:
    """How many of `count` iterations are of each kind, along an axis of their own."""
    front, back, turns = edges
    alike = uniform | (count == 1)
    if alike.all():
        return count
    axes = [1] * count.ndim
    axes[axis] = -1
    kinds = np.arange(edges.kinds).reshape(axes)
    place = kinds - front
    ends = np.where(place < 0, kinds < count, count - back + (place - turns) >= front)
    middle = np.maximum(count - front - back - place + turns - 1, 0) // turns
    told_apart = np.where((place >= 0) & (place < turns), middle, ends)
    return np.where(alike, np.where(kinds == 0, count, 0.0), told_apart)
