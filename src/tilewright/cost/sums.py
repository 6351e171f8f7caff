"""Cycles of all items of a nest added up, whatever overlaps.

In: a nest, what its items cost in each kind of iteration, and how often its loops run: integers,
arrays of tiles, or (kinds of each loop, tiles) with one kind where they do not depend on a loop.
Out: sums for each tile, by arrays, with nothing to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewright.common.expr import Value
from tilewright.cost.chain import Prepared
from tilewright.cost.moments import Edges, Kinds
from tilewright.cost.pipeline_types import Flags, Floats, Ints
from tilewright.cost.prices import Prices
from tilewright.cost.steps import CallStep
from tilewright.cost.window_uses import UNITS

Cycles = tuple[Value, ...]
"""(of service or of the call, of issue, `own` and `apart` as of `Cost`); where cores keep a window
of operations in flight its next four instead of the fourth, then those of its operations that no
other unit's overlap.
"""
_PLAYED = 8
"""Fields of `Cycles` that a nest is played with."""


class CycleSums(NamedTuple):
    """Cycles of all items of each tile, and of its calls."""

    every: Floats
    calls: Floats

    @property
    def transfers(self) -> Floats:
        """Cycles of all transfers."""
        return self.every - self.calls


class UnitSums(NamedTuple):
    """The sums of a nest with a window of operations in flight: cycles of those that run `alone`,
    and of the others of the unit that is `busy` for longest.
    """

    cycles: CycleSums
    alone: Floats
    busy: Floats


@dataclass(frozen=True, eq=False)
class NestCosts:
    """Of each item whether it happens, and its cycles where it does; how often each loop runs.
    Items with the same of the `marks`, if any, have the same costs, of loops in another order.
    """

    items: Sequence[tuple[Value, Cycles]]
    counts: Sequence[Value]
    marks: Sequence[Hashable] = ()

    def service(self, number: int) -> Value:
        """The cycles of an item, zero where it does not happen."""
        holds, cycles = self.items[number]
        return cycles[0] * holds

    def of(self, tiles: Ints) -> NestCosts:
        """The costs of some tiles that are played."""
        items = [
            (_of_tiles(holds, tiles), each_once(lambda c: _of_tiles(c, tiles), cycles[:_PLAYED]))
            for holds, cycles in self.items
        ]
        return NestCosts(items, [_of_tiles(count, tiles) for count in self.counts])

    def ordered(self, axes: Sequence[int]) -> NestCosts:
        """The costs with the kinds of the loops along these axes in front."""
        if all(d == axis for d, axis in enumerate(axes)):
            return self

        def turned(value: Value) -> Value:
            return value.transpose(*axes, -1) if np.ndim(value) > 1 else value

        items = [(turned(holds), each_once(turned, cycles)) for holds, cycles in self.items]
        return NestCosts(items, [turned(count) for count in self.counts], self.marks)


def each_once(made: Callable[[Value], Value], cycles: Cycles) -> Cycles:
    """The result for each kind of cycles; kinds that are one array are made once."""
    found = {id(c): made(c) for c in {id(c): c for c in cycles}.values()}
    return tuple(found[id(c)] for c in cycles)


def _of_tiles(value: Value, tiles: Ints) -> Value:
    single = np.ndim(value) == 0 or value.shape[-1] == 1
    return value if single else value.take(tiles, axis=-1)


def item_sums(prepared: Prepared, costs: NestCosts, uniform: Flags) -> CycleSums:
    """The sums of a nest; where loops are `uniform` their iterations are taken together. Where
    nothing overlaps, as the core makes all transfers itself, those of all items are what
    `cost.pipeline` comes to without an engine.
    """
    total = _total(prepared, costs, uniform)
    return _sums(prepared, [total(n, costs.service(n)) for n in range(len(costs.items))], uniform)


def unit_sums(prepared: Prepared, costs: NestCosts, prices: Prices, width: int) -> UnitSums:
    """The sums of a nest where its loops' iterations are told apart."""
    uniform = np.zeros((len(prepared.loops), width), np.bool_)
    total = _total(prepared, costs, uniform)
    every, alone, units = list[Floats](), np.zeros(width), np.zeros((UNITS, width))
    for number, (item, (holds, cycles)) in enumerate(zip(prepared.items, costs.items, strict=True)):
        unit = prices.unit(item.step)
        every.append(total(number, costs.service(number)))
        units[unit] += every[-1]
        if np.any(cycles[-1]):
            own = total(number, cycles[-1] * holds)
            units[unit] -= own
            alone += own
    return UnitSums(_sums(prepared, every, uniform), alone, units.max(axis=0))


def sums_of_items(
    prepared: Prepared, costs: NestCosts, width: int, known: dict[Hashable, Floats]
) -> list[Floats]:
    """For each item the sum of its cycles, of a call those of cores that have any data. `known` are
    sums of items with the same marks inside the same loops.
    """
    found, total = list[Floats](), None
    names = [loop.var for loop in prepared.loops]
    for number, (item, (holds, cycles)) in enumerate(zip(prepared.items, costs.items, strict=True)):
        key = costs.marks[number], frozenset(names[: item.level])
        if key not in known:
            if total is None:
                total = _total(prepared, costs, np.zeros((len(names), width), np.bool_))
            own = cycles[2 if isinstance(item.step, CallStep) else 0]
            known[key] = total(number, own * holds)
        found.append(known[key])
    return found


def _sums(prepared: Prepared, every: Sequence[Floats], uniform: Flags) -> CycleSums:
    """The sums of all items by those of each."""
    sums = CycleSums(*np.zeros((2, uniform.shape[1])))
    for item, cycles in zip(prepared.items, every, strict=True):
        sums.every[:] += cycles
        if isinstance(item.step, CallStep):
            sums.calls[:] += cycles
    return sums


def _total(prepared: Prepared, costs: NestCosts, uniform: Flags) -> Callable[[int, Value], Floats]:
    """Sum of a value of an item over all iterations, for each tile."""
    width = uniform.shape[1]
    times = _times(prepared, costs.counts, uniform)
    bodies = dict[tuple[int, tuple[int, ...]], Floats]()

    def total(number: int, value: Value) -> Floats:
        level, kinds = prepared.items[number].level, prepared.moments.items[number].kinds
        alike = tuple(d for d, own in enumerate(kinds) if own == 1)
        if (level, alike) not in bodies:
            bodies[level, alike] = times[level].sum(alike, keepdims=True)
        told_apart = _told_apart(value, kinds, times[level])
        found: Floats = (bodies[level, alike] * told_apart).reshape(-1, width).sum(0)
        return found

    return total


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
    middle = np.maximum(count - front - back - place + turns - 1, 0)
    middle = middle // turns if turns > 1 else middle
    told_apart = np.where((place >= 0) & (place < turns), middle, ends)
    return np.where(alike, np.where(kinds == 0, count, 0.0), told_apart)
