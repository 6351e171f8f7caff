"""Grids that may be in the best plan, out of more than can be paired.

In: the grids of all layers. Out: all of them, where they are few. Else a plan is made of few grids
of each layer, those of the lowest bounds, and those remain whose bound is not above what that plan
costs; the lowest of them where they are still many.

The bound of a grid is below the cost of every plan with it. Costs go forward from layer to layer,
each in equal parts to the exchanges that read it; what is more than least goes back in the same
way. On a chain both are dynamic programming over the bounds of all pairs; where branches join again
the bound is a lower one, and still one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.partition.choices import Choices
from tilewright.partition.compiled import least_received, least_sent
from tilewright.partition.core_model import CoreModel
from tilewright.partition.grids import Integers, first_of_each
from tilewright.partition.layers import Layer
from tilewright.partition.objective import Weights
from tilewright.partition.outline import Outline, outline

Costs = NDArray[np.float64]
Exchange = tuple[int, int, int]
"""Numbers of the layer that makes a tensor, of the one that reads it, and of its operand."""


@dataclass(frozen=True)
class Classes:
    """Grids that are alike to an exchange: a row of numbers for each class, and that of each
    grid.
    """

    rows: Integers
    of: NDArray[np.intp]

    @classmethod
    def among(cls, rows: Integers) -> Classes:
        """The different rows."""
        first, of = first_of_each(rows)
        return cls(rows[first], of)

    def least(self, costs: Costs) -> Costs:
        """The least of the grids of each class."""
        found = np.full(len(self.rows), np.inf)
        np.minimum.at(found, self.of, costs)
        return found


def least_costs(
    alone: Sequence[Costs],
    kept: Sequence[Classes],
    needs: Mapping[Exchange, Classes],
    prices: Costs,
) -> list[Costs]:
    """For each grid of each layer, a lower bound on the cost of any plan with it. `alone` is the
    grid's cost by itself; `kept` and `needs` are the rows of `least_received`. Exchanges come in
    the order of their readers, and layers behind those that they read.
    """
    reads, read_by = defaultdict[int, list[Exchange]](list), defaultdict[int, list[Exchange]](list)
    for exchange in needs:
        read_by[exchange[0]].append(exchange)
        reads[exchange[1]].append(exchange)
    through: list[Costs] = []
    received: dict[Exchange, Costs] = {}
    for number, own in enumerate(alone):
        costs = own.copy()
        for exchange in reads[number]:
            source = exchange[0]
            given = kept[source].least(through[source] / len(read_by[source]))
            need = needs[exchange]
            received[exchange] = least_received(given, kept[source].rows, need.rows, prices)
            costs += received[exchange][need.of]
        through.append(costs)
    ends = [number for number in range(len(alone)) if not read_by[number]]
    bound = float(sum(through[number].min() for number in ends))
    more: list[Costs] = [np.zeros(0)] * len(alone)
    for number in reversed(range(len(alone))):
        if number in ends:
            more[number] = through[number] - through[number].min()
            continue
        total = np.zeros(len(alone[number]))
        for exchange in read_by[number]:
            reader, need = exchange[1], needs[exchange]
            behind = need.least(more[reader] / len(reads[reader])) - received[exchange]
            sent = least_sent(behind, kept[number].rows, need.rows, prices)
            total += through[number] / len(read_by[number]) + sent[kept[number].of]
        more[number] = total
    return [bound + own for own in more]


_MOST = 2048
"""Grids of a layer that are paired: two layers have four million pairs, 32 MB of costs."""
_CORES_OF_PAIRS = 1 << 28
"""Cores that are looked at for all pairs of two layers: a quarter of a second's work."""
_FEW = 128
"""Grids of a layer that the first plan is made of."""


@dataclass(frozen=True)
class Promising:
    """Grids of each layer; no plan with one of the `left_out` costs less than `others`."""

    choices: Sequence[Choices]
    others: float = math.inf
    left_out: int = 0


@dataclass
class _Bounded:
    """The grids of all equal layers that have the same ones, which remain equal: so they are priced
    once. `least` is what no plan costs less than that has the grid in one of them.
    """

    choices: Choices
    outline: Outline
    fits: NDArray[np.bool_]
    surely: NDArray[np.bool_]
    least: Costs

    @classmethod
    def of(cls, layer: Layer, choices: Choices, cores: int, model: CoreModel | None) -> _Bounded:
        """Without a bound."""
        own = outline(layer, choices.grids, cores, model)
        room = math.inf if model is None else model.buffer_values
        fits = (own.work <= choices.limit) & (own.least <= room)
        return cls(choices, own, fits, fits & (own.most <= room), np.full(len(fits), np.inf))

    def lowest(self, which: NDArray[np.bool_], most: int) -> NDArray[np.intp]:
        """Grids of `which` with the lowest bounds, at most `most` of them."""
        found = np.flatnonzero(which)
        order = np.argsort(self.least[found], kind="stable")[:most]
        return np.sort(found[order])


def promising(
    layers: Sequence[Layer],
    every: Sequence[Choices],
    cores: int,
    weights: Weights,
    model: CoreModel | None,
    cost_of: Callable[[Sequence[Choices]], float],
) -> Promising:
    """The grids that are paired; `cost_of` is what the best plan of some costs."""
    most = min(_MOST, math.isqrt(_CORES_OF_PAIRS // cores))
    if all(len(choice.grids) <= most for choice in every):
        return Promising(every)
    keys: list[object] = [
        (layer.shape_key, id(choice)) for layer, choice in zip(layers, every, strict=True)
    ]
    groups: dict[object, _Bounded] = {}
    for key, layer, choice in zip(keys, layers, every, strict=True):
        if key not in groups:
            groups[key] = _Bounded.of(layer, choice, cores, model)
    if not all(group.surely.any() for group in groups.values()):
        return Promising(every)
    _bound(layers, [groups[key] for key in keys], weights, model)
    few = {key: own.choices.where(own.lowest(own.surely, _FEW)) for key, own in groups.items()}
    known = cost_of([few[key] for key in keys])
    some, others, left_out = {}, math.inf, 0
    for key, group in groups.items():
        kept = group.lowest(group.fits & (group.least <= known), most)
        some[key] = group.choices.where(kept)
        left = group.fits.copy()
        left[kept] = False
        others = min(others, float(group.least[left].min(initial=math.inf)))
        left_out += int(left.sum()) * keys.count(key)
    return Promising([some[key] for key in keys], others, left_out)


def bounds(
    layers: Sequence[Layer],
    every: Sequence[Choices],
    cores: int,
    weights: Weights,
    model: CoreModel | None,
) -> list[Costs]:
    """For each grid of each layer, a lower bound on the cost of any plan with it, in this layer or
    an equal one; infinite if it exceeds the limit or does not fit the buffers.
    """
    keys, groups = _grouped(layers, every, cores, model)
    _bound(layers, [groups[key] for key in keys], weights, model)
    return [groups[key].least for key in keys]


def _grouped(
    layers: Sequence[Layer], every: Sequence[Choices], cores: int, model: CoreModel | None
) -> tuple[list[object], dict[object, _Bounded]]:
    """A key for each layer, and what equal ones have in common."""
    keys: list[object] = []
    groups: dict[object, _Bounded] = {}
    for layer, choice in zip(layers, every, strict=True):
        keys.append((layer.shape_key, id(choice)))
        if keys[-1] not in groups:
            groups[keys[-1]] = _Bounded.of(layer, choice, cores, model)
    return keys, groups


def _bound(
    layers: Sequence[Layer],
    groups: Sequence[_Bounded],
    weights: Weights,
    model: CoreModel | None,
) -> None:
    """Give all grids their bounds."""
    at = {layer.output: number for number, layer in enumerate(layers)}
    alone, needs = [], {}
    kept: dict[int, Classes] = {}
    need: dict[tuple[int, int], Classes] = {}
    for number, (layer, group) in enumerate(zip(layers, groups, strict=True)):
        own, inputs = group.outline, np.zeros(len(group.fits), np.int64)
        names = [name for name in layer.steps[0].operands if name in layer.reads]
        for operand, (name, extents) in enumerate(zip(names, own.needs, strict=True)):
            if name not in at:
                inputs = inputs + extents.values
                continue
            rows = np.column_stack([own.cells, extents.values, extents.longest])
            same = id(group), operand
            need[same] = need.get(same) or Classes.among(rows)
            needs[at[name], number, operand] = need[same]
        kept[id(group)] = kept.get(id(group)) or Classes.among(
            np.column_stack([own.cells, own.kept])
        )
        costs = weights.alone(layer.op.flops, own, inputs, model)
        alone.append(np.where(group.fits, costs, np.inf))
    found = least_costs(
        alone, [kept[id(group)] for group in groups], needs, _prices(weights, model)
    )
    for group, least in zip(groups, found, strict=True):
        group.least = np.minimum(group.least, least)


def _prices(weights: Weights, model: CoreModel | None) -> Costs:
    """Prices in an exchange: of each value that cores get, of any message, and of each value that
    one core gets. With a multicast the last one takes the place of the first.
    """
    value, message, own = weights.activations, 0.0, 0.0
    if model is not None:
        message = weights.cycles * model.fabric.send_cycles
        own = weights.cycles / model.link_values_per_cycle
        if model.multicasts:
            value, own = 0.0, own + value
    return np.array([value, message, own])
