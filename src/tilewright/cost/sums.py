"""Cycles of all items of a nest added up, whatever overlaps.

In: a nest, the costs of its items in each kind of iteration, and its loops' iteration counts:
integers or arrays of shape (tiles,) or (kinds of each loop, tiles), with one kind for a loop that
they do not depend on. Out: sums for each tile, computed by arrays, with nothing to compile.
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
"""The fields `service`, `issue`, `own` and `apart` of `Cost`. Where cores keep a window of
operations in flight: the first three, those from `first` on, and the cycles of operations that
those of no other unit overlap.
"""
_PLAYED = 8
"""Leading fields of `Cycles` that playing a nest reads."""


class CycleSums(NamedTuple):
    """Cycles of all items, and of the calls among them, for each tile."""

    every: Floats
    calls: Floats

    @property
    def transfers(self) -> Floats:
        """Cycles of the transfers, for each tile."""
        return self.every - self.calls


class UnitSums(NamedTuple):
    """The sums of a nest with a window of operations in flight: cycles of operations that run
    `alone`, and those of the other operations on the `busy` unit, the one with most of them.
    """

    cycles: CycleSums
    alone: Floats
    busy: Floats


@dataclass(frozen=True, eq=False)
class NestCosts:
    """(whether it happens, cycles if it does) of each item, and the iteration counts of the loops.
    Items with equal `marks`, if any, have the same costs, whatever the order of their loops.
    """

    items: Sequence[tuple[Value, Cycles]]
    counts: Sequence[Value]
    marks: Sequence[Hashable] = ()

    def service(self, number: int) -> Value:
        """Service cycles of an item, zero where it does not happen."""
        holds, cycles = self.items[number]
        return cycles[0] * holds

    def of(self, tiles: Ints) -> NestCosts:
        """The costs of the `tiles` to play, without the fields that playing does not read."""
        items = [
            (_of_tiles(holds, tiles), each_once(lambda c: _of_tiles(c, tiles), cycles[:_PLAYED]))
            for holds, cycles in self.items
        ]
        return NestCosts(items, [_of_tiles(count, tiles) for count in self.counts])

    def ordered(self, axes: Sequence[int]) -> NestCosts:
        """The costs with their axes of kinds transposed to the order of `axes`."""
        if all(d == axis for d, axis in enumerate(axes)):
            return self

        def turned(value: Value) -> Value:
            return value.transpose(*axes, -1) if np.ndim(value) > 1 else value

        items = [(turned(holds), each_once(turned, cycles)) for holds, cycles in self.items]
        return NestCosts(items, [turned(count) for count in self.counts], self.marks)


def each_once(made: Callable[[Value], Value], cycles: Cycles) -> Cycles:
    """`made` applied to each field of the cycles, once for fields that are the same object."""
    found = {id(c): made(c) for c in {id(c): c for c in cycles}.values()}
    return tuple(found[id(c)] for c in cycles)


def _of_tiles(value: Value, tiles: Ints) -> Value:
    single = np.ndim(value) == 0 or value.shape[-1] == 1
    return value if single else value.take(tiles, axis=-1)


def item_sums(prepared: Prepared, costs: NestCosts, uniform: Flags) -> CycleSums:
    """The sums of a nest; iterations of `uniform` loops are taken together. Where nothing overlaps,
    as the core makes all transfers itself, the sum of all items equals the cycles that
    `cost.pipeline` finds without an engine.
    """
    total = _total(prepared, costs, uniform)
    return _sums(prepared, [total(n, costs.service(n)) for n in range(len(costs.items))], uniform)


def unit_sums(prepared: Prepared, costs: NestCosts, prices: Prices, width: int) -> UnitSums:
    """The sums of a nest on cores with a window, with all kinds of iterations told apart."""
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
    """Cycles of each item, summed over all iterations; for a call those of cores that have data.
    `known` caches the sums of items with equal marks inside the same loops.
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
    """The sums of all items, from the sum of each."""
    sums = CycleSums(*np.zeros((2, uniform.shape[1])))
    for item, cycles in zip(prepared.items, every, strict=True):
        sums.every[:] += cycles
        if isinstance(item.step, CallStep):
            sums.calls[:] += cycles
    return sums


def _total(prepared: Prepared, costs: NestCosts, uniform: Flags) -> Callable[[int, Value], Floats]:
    """A function that sums a value of an item over all iterations, for each tile."""
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
    """(loops, tiles): true where item costs and inner counts are equal in all of a loop's turns."""
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
    """For each d, how often the body inside the d outermost loops runs: (kinds of each loop,
    tiles), with a single kind for a loop whose kinds no tile tells apart.
    """
    loops, width = len(prepared.loops), uniform.shape[1]
    found = [np.ones((*(1,) * loops, width))]
    for d, (kinds, edges) in enumerate(zip(prepared.moments.counts, prepared.edges, strict=True)):
        count = _told_apart(counts[d], kinds, found[d])
        found.append(found[d] * of_kinds(count, edges, uniform[d], d))
    return found


def _told_apart(value: Value, kinds: Kinds, body: Floats) -> Value:
    """A value restricted to the kinds that a body tells apart."""
    if np.ndim(value) <= 1:
        return np.broadcast_to(value, (*(1,) * len(kinds), body.shape[-1]))
    pairs = zip(body.shape, kinds, strict=False)
    return value[tuple(slice(told if own > 1 else None) for told, own in pairs)]


def of_kinds(count: Floats, edges: Edges, uniform: Flags, axis: int) -> Floats:
    """How many of `count` iterations are of each kind; the kinds lie along `axis`."""
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
