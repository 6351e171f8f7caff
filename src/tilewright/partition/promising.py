"""Pruning of grids: which may be part of the best plan, where they are too many to pair.

In: the grids of all layers. Out: all of them, where they are few. Otherwise a first plan is made
from a few grids of each layer, those with the lowest bounds. Grids remain whose bound does not
exceed the cost of that plan; if these are still too many, the ones with the lowest bounds.

The bound of a grid is a lower bound on the cost of every plan with it. Costs propagate forward from
layer to layer, split equally among a layer's readers; the excess over the least cost propagates
back in the same way. On a chain this is dynamic programming over the bounds of all pairs; where
branches rejoin, the bound is weaker but still valid.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

import numpy as np
from numpy.typing import NDArray

from tilewright.ops.box import Interval
from tilewright.ops.op import Follows, Op, Pair
from tilewright.partition.compiled import least_paired
from tilewright.partition.grids import Cut, Grids, Integers, first_of_each
from tilewright.partition.layers import Layer
from tilewright.partition.objective import CoreModel, Weights
from tilewright.partition.strategies import Choices
from tilewright.partition.volumes import (
    CHANNELS,
    GridArrays,
    Question,
    answers,
    followers_of,
    grid_options,
    sizes,
)

_TOGETHER = 1 << 16
"""Cells whose regions are computed at once."""


@dataclass(frozen=True)
class _Extents:
    """Extents of a tensor's regions, per grid: a cell's longest sides, and all cells' values."""

    longest: Integers
    values: Integers

    @property
    def most(self) -> Integers:
        """Upper bound on the values of one cell's region."""
        found: Integers = self.longest.prod(axis=1)
        return found


@dataclass(frozen=True)
class GridOutlines:
    """Sizes that bound the costs of each grid, by tables of the cuts of each axis alone where each
    dimension of a region follows axes of its own (`Op.follows`), else by the regions of all cells.

    `kept`: the longest sides that cells keep; `needs`: the extents of each operand that the layer
    reads; `weights` loaded, a lower bound where sums are divided; partial `sums` exchanged; `work`:
    the busiest core's fraction of the operations. A buffer holds between `least` and `most` values.
    Along each dimension a core keeps no more of what it needs than the smaller of the two extents.
    """

    cells: Integers
    kept: Integers
    needs: tuple[_Extents, ...]
    weights: Integers
    sums: Integers
    work: NDArray[np.float64]
    least: Integers
    most: Integers


def outline(layer: Layer, grids: Grids, cores: int, model: CoreModel | None) -> GridOutlines:
    """The outlines of some grids of `layer`."""
    multicast = model is not None and model.multicasts
    axes = _axes(layer, layer.op)
    first = None if axes is None else _regions(layer.op, axes, grids, multicast)
    if first is None:
        return _laid_out(layer, grids, cores, model)
    computed, *operands = first
    reads = [name in layer.reads for name in layer.steps[0].operands]
    needs = tuple(own for own, read in zip(operands, reads, strict=True) if read)
    streamed = [own for own, read in zip(operands, reads, strict=True) if not read]
    weights = sum((own.values for own in streamed), np.zeros(len(grids), np.int64))
    for step in (step for step in layer.steps[1:] if len(step.operands) > 1):
        axes = _axes(layer, step.op)
        found = None if axes is None else _regions(step.op, axes, grids, multicast)
        for own in (found or [])[2:]:
            weights = weights + np.where(grids.parts == 1, own.values, 0)
    result = math.prod(layer.op.out_shape)
    terms = grids.longest[:, grids.rank :].prod(axis=1)
    summed = grids.longest[:, : grids.rank].prod(axis=1)
    read = [own.most for own in needs]
    ahead = sum((own.most for own in streamed), np.zeros(len(grids), np.int64))
    channels = computed.longest[:, CHANNELS] if len(layer.op.out_shape) > CHANNELS else 1
    ahead = 2 * -(-ahead // np.maximum(channels, 1))
    return GridOutlines(
        grids.cells,
        _sides(grids),
        needs,
        weights,
        result * (grids.parts - 1),
        computed.most * terms / (result * math.prod(layer.op.terms)),
        np.max([*read, summed], axis=0),
        np.maximum(sum(read, ahead), summed),
    )


def _laid_out(layer: Layer, grids: Grids, cores: int, model: CoreModel | None) -> GridOutlines:
    """The outlines computed from the regions of every cell, some grids at a time."""
    step = max(1, _TOGETHER // cores)
    found = [
        _of_table(grid_options(layer, grids[slice(i, i + step)], cores, model))
        for i in range(0, max(len(grids), 1), step)
    ]
    needs = tuple(_behind(own) for own in zip(*(one.needs for one in found), strict=True))
    return GridOutlines(
        grids.cells,
        _sides(grids),
        needs,
        *(
            np.concatenate([getattr(one, name) for one in found])
            for name in ("weights", "sums", "work", "least", "most")
        ),
    )


def _of_table(table: GridArrays) -> GridOutlines:
    needs = tuple(
        _Extents(np.maximum(boxes[..., 1] - boxes[..., 0], 0).max(axis=1), sizes(boxes).sum(axis=1))
        for _, boxes in table.needs
    )
    return GridOutlines(table.grids.cells, _sides(table.grids), needs, table.weights, table.sums,
                   table.work, table.buffers, table.buffers)  # fmt: skip


def _behind(every: Sequence[_Extents]) -> _Extents:
    return _Extents(
        np.concatenate([one.longest for one in every]),
        np.concatenate([one.values for one in every]),
    )


def _sides(grids: Grids) -> Integers:
    """The longest sides that a cell keeps, (grid, dimension). Where sums are divided, the cells of
    a region each keep a part along its longest dimension; the bound divides that side only if it is
    the longest in every cell.
    """
    longest = grids.longest[:, : grids.rank].copy()
    shortest = grids.of_cuts(lambda own: min(b - a for a, b in own))[:, : grids.rank]
    if grids.rank:
        every, side = np.arange(len(grids)), longest.argmax(axis=1)
        others = longest.copy()
        others[every, side] = 0
        clear = shortest[every, side] > others.max(axis=1)
        longest[every, side] = -(-longest[every, side] // np.where(clear, grids.parts, 1))
    return longest


def _axes(layer: Layer, op: Op) -> list[int | None] | None:
    """For each dimension of the operator's result the axis of the layer's result, None for a
    dimension of one element. None instead of a list where the shapes differ by more than such
    dimensions.
    """
    wide = [axis for axis, extent in enumerate(layer.shape) if extent > 1]
    if op.out_shape == layer.shape:
        return list(range(len(layer.shape)))
    if [layer.shape[axis] for axis in wide] != [extent for extent in op.out_shape if extent > 1]:
        return None
    left = iter(wide)
    return [next(left) if extent > 1 else None for extent in op.out_shape]


def _regions(
    op: Op, axes: Sequence[int | None], grids: Grids, multicast: bool
) -> list[_Extents] | None:
    """Extents of the computed region and of each operand's; None where dimensions share axes."""
    if op.follows is None:
        return None
    places = _Places(op, axes, grids)
    if any(len(set(used)) < len(used) for used in map(places.used, op.follows)):
        return None
    pairs = followers_of(op.follows)
    questions = {pair: places.questions(pair) for pair in pairs}
    known = answers(op, questions)
    longest = [np.ones((len(grids), len(dimensions)), np.int64) for dimensions in op.follows]
    values = [np.ones(len(grids), np.int64) for _ in op.follows]
    for pair, followed in pairs.items():
        for own, (which, dimension) in enumerate(followed):
            sides = (answer[own] for answer in known[pair])
            table = dict(zip(questions[pair], sides, strict=True))
            most, total, distinct = places.measures(pair, table)
            longest[which][:, dimension] = most
            values[which] = values[which] * (distinct if multicast else total)
    if not multicast:
        for which, dimensions in enumerate(op.follows):
            used = places.used(dimensions)
            others = [axis for axis in range(len(grids.cuts)) if axis not in used]
            values[which] = values[which] * grids.counts[:, others].prod(axis=1)
    return [_Extents(*own) for own in zip(longest, values, strict=True)]


@dataclass(frozen=True)
class _Places:
    """Maps the dimensions and terms of an operator to the axes of a layer's grids."""

    op: Op
    axes: Sequence[int | None]
    grids: Grids

    def axes_of(self, pair: Pair) -> tuple[int | None, int | None]:
        """The grids' axes of a pair's dimension and of its term; None for a missing one."""
        dimension, term = pair
        axis = None if dimension is None else self.axes[dimension]
        return axis, None if term is None else self.grids.rank + term

    def used(self, dimensions: Follows) -> list[int]:
        """The grids' axes that the dimensions of a region follow."""
        return [a for pair in dimensions for a in self.axes_of(pair) if a is not None]

    def cuts(self, pair: Pair) -> tuple[Sequence[Cut], Sequence[Cut]]:
        """The cuts of a pair's dimension and of its term; without an axis, the whole extent."""
        (dimension, _), (axis, behind) = pair, self.axes_of(pair)
        extent = 1 if dimension is None else self.op.out_shape[dimension]
        ways = (((0, extent),),) if axis is None else self.grids.cuts[axis]
        return ways, (((0, 1),),) if behind is None else self.grids.cuts[behind]

    def questions(self, pair: Pair) -> list[Question]:
        """Every distinct side of a pair's dimension combined with every one of its term."""
        one, other = self.cuts(pair)
        return [*product(dict.fromkeys(chain(*one)), dict.fromkeys(chain(*other)))]

    def measures(self, pair: Pair, table: Mapping[Question, Interval]) -> list[Integers]:
        """For each grid a dimension's longest side, and the sums of all and of distinct sides."""
        one, other = self.cuts(pair)
        measured = [[_measures([table[q] for q in product(a, b)]) for b in other] for a in one]
        at = (
            np.zeros(len(self.grids), np.int64) if axis is None else self.grids.index[:, axis]
            for axis in self.axes_of(pair)
        )
        return [*np.array(measured, np.int64)[tuple(at)].T]


def _measures(sides: Sequence[Interval]) -> tuple[int, int, int]:
    lengths = [max(b - a, 0) for a, b in sides]
    return max(lengths), sum(lengths), sum(max(b - a, 0) for a, b in set(sides))


Costs = NDArray[np.float64]
Exchange = tuple[int, int, int]
"""Numbers of the layer that produces a tensor, of the reader, and of the reader's operand."""


@dataclass(frozen=True)
class Classes:
    """Classes of grids that an exchange cannot distinguish: the row of numbers of each class, and
    the class `of` each grid.
    """

    rows: Integers
    of: NDArray[np.intp]

    @classmethod
    def among(cls, rows: Integers) -> Classes:
        """Classes of the equal `rows`, one row per grid."""
        first, of = first_of_each(rows)
        return cls(rows[first], of)

    def least(self, costs: Costs) -> Costs:
        """The least cost of a grid in each class."""
        found = np.full(len(self.rows), np.inf)
        np.minimum.at(found, self.of, costs)
        return found


def least_costs(
    alone: Sequence[Costs],
    kept: Sequence[Classes],
    needs: Mapping[Exchange, Classes],
    prices: Costs,
) -> list[Costs]:
    """For each grid of each layer, a lower bound on the cost of any plan with it. `alone` is a
    grid's cost by itself; `kept` and `needs` hold the rows for `least_paired`. Exchanges are
    ordered by reader, and every layer comes after the layers that it reads.
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
            received[exchange] = least_paired(given, kept[source].rows, need.rows, prices, True)
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
            sent = least_paired(behind, kept[number].rows, need.rows, prices, False)
            total += through[number] / len(read_by[number]) + sent[kept[number].of]
        more[number] = total
    return [bound + own for own in more]


_MOST = 2048
"""Most grids of a layer that are paired: two layers have four million pairs, 32 MB of costs."""
_CORES_OF_PAIRS = 1 << 28
"""Most cores visited for all pairs of two layers: about a quarter of a second's work."""
_FEW = 128
"""Grids of a layer that the first plan chooses from."""


@dataclass(frozen=True)
class Promising:
    """Grids of each layer; no plan with one of the `left_out` grids costs less than `others`."""

    choices: Sequence[Choices]
    others: float = math.inf
    left_out: int = 0


@dataclass
class _Bounded:
    """The grids of a group of equal layers, which are pruned alike, so that equal layers are priced
    once. `least` is a lower bound on the cost of any plan with the grid in one of these layers;
    `fits` flags grids that may fit the buffers, `surely` those that certainly do.
    """

    choices: Choices
    outline: GridOutlines
    fits: NDArray[np.bool_]
    surely: NDArray[np.bool_]
    least: Costs

    @classmethod
    def of(cls, layer: Layer, choices: Choices, cores: int, model: CoreModel | None) -> _Bounded:
        """The grids of a layer, before any bound is known."""
        own = outline(layer, choices.grids, cores, model)
        room = math.inf if model is None else model.buffer_values
        fits = (own.work <= choices.limit) & (own.least <= room)
        return cls(choices, own, fits, fits & (own.most <= room), np.full(len(fits), np.inf))

    def lowest(self, which: NDArray[np.bool_], most: int) -> NDArray[np.intp]:
        """Indices of the grids in `which` with the lowest bounds, at most `most` of them."""
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
    """The grids to pair; `cost_of` returns the cost of the best plan from given choices."""
    most = min(_MOST, math.isqrt(_CORES_OF_PAIRS // cores))
    if all(len(choice.grids) <= most for choice in every):
        return Promising(every)
    keys, groups = _grouped(layers, every, cores, model)
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


def _grouped(
    layers: Sequence[Layer], every: Sequence[Choices], cores: int, model: CoreModel | None
) -> tuple[list[object], dict[object, _Bounded]]:
    """A key for each layer, and the group of layers of each key."""
    keys: list[object] = []
    groups: dict[object, _Bounded] = {}
    for layer, choice in zip(layers, every, strict=True):
        keys.append((layer.shape_key, id(choice)))
        if keys[-1] not in groups:
            groups[keys[-1]] = _Bounded.of(layer, choice, cores, model)
    return keys, groups


def _bound(
    layers: Sequence[Layer], groups: Sequence[_Bounded], weights: Weights, model: CoreModel | None
) -> None:
    """Set the bounds of all grids."""
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
    """Prices of an exchange: per value that cores receive, per exchange, and per value that one
    core receives. With a multicast the per-core price takes the place of the first, since a value
    may count once for all its receivers.
    """
    value, message, own = weights.activations, 0.0, 0.0
    if model is not None:
        message = weights.cycles * model.fabric.send_cycles
        own = weights.cycles / model.link_values_per_cycle
        if model.multicasts:
            value, own = 0.0, own + value
    return np.array([value, message, own])
