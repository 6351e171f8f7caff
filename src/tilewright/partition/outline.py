"""Outlines: what grids cost at least, before the regions of their cells are known.

In: many grids of one layer. Out: what their cells read, load, keep and compute, from tables of the
cuts of each axis alone. That is exact where each dimension of a region follows axes of its own
(`Op.follows`); a layer where it does not is laid out grid by grid. Pairs of grids get a bound from
the extents of their largest cells: a core keeps no more of what it needs than the smaller of both
along each dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.ops.box import Box, Interval
from tilewright.ops.op import Op
from tilewright.partition.core_model import CoreModel
from tilewright.partition.grids import Cut, Grids, Integers
from tilewright.partition.layers import Layer
from tilewright.partition.volumes import CHANNELS, Options, asked, options, sizes

Pair = tuple[int | None, int | None]
"""The dimension of the result, and that of the terms, that one of a region follows."""
Sides = tuple[Interval, ...]
_TOGETHER = 1 << 16
"""Cells that are laid out together."""


@dataclass(frozen=True)
class Extents:
    """Extents of one region in each grid: the longest sides of a cell's part, and the values of all
    cells' parts.
    """

    longest: Integers
    values: Integers

    @property
    def most(self) -> Integers:
        """The most values of a cell, or a little more."""
        found: Integers = self.longest.prod(axis=1)
        return found


@dataclass(frozen=True)
class Outline:
    """Outline of each grid: the longest sides of what cells keep, and what they need of each
    operand that the layer reads; the weights that are loaded, a little less where sums are divided;
    the partial sums exchanged; the part of the work that the busiest core has. Buffers take `least`
    values or more, and `most` or less.
    """

    cells: Integers
    kept: Integers
    needs: tuple[Extents, ...]
    weights: Integers
    sums: Integers
    work: NDArray[np.float64]
    least: Integers
    most: Integers


def outline(layer: Layer, grids: Grids, cores: int, model: CoreModel | None) -> Outline:
    """The outline of some grids of `layer`."""
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
    return Outline(
        grids.cells,
        _kept(grids),
        needs,
        weights,
        result * (grids.parts - 1),
        computed.most * terms / (result * math.prod(layer.op.terms)),
        np.max([*read, summed], axis=0),
        np.maximum(sum(read, ahead), summed),
    )


def _laid_out(layer: Layer, grids: Grids, cores: int, model: CoreModel | None) -> Outline:
    """The outline computed from the regions of every cell, some grids at a time."""
    step = max(1, _TOGETHER // cores)
    found = [
        _of_table(options(layer, grids[slice(i, i + step)], cores, model))
        for i in range(0, max(len(grids), 1), step)
    ]
    needs = tuple(_behind(own) for own in zip(*(one.needs for one in found), strict=True))
    return Outline(
        grids.cells,
        _kept(grids),
        needs,
        *(
            np.concatenate([getattr(one, name) for one in found])
            for name in ("weights", "sums", "work", "least", "most")
        ),
    )


def _of_table(table: Options) -> Outline:
    needs = tuple(
        Extents(np.maximum(boxes[..., 1] - boxes[..., 0], 0).max(axis=1), sizes(boxes).sum(axis=1))
        for _, boxes in table.needs
    )
    return Outline(table.grids.cells, _kept(table.grids), needs, table.weights, table.sums,
                   table.work, table.buffers, table.buffers)  # fmt: skip


def _behind(every: Sequence[Extents]) -> Extents:
    return Extents(
        np.concatenate([one.longest for one in every]),
        np.concatenate([one.values for one in every]),
    )


def _kept(grids: Grids) -> Integers:
    """The longest sides of what a cell keeps: where sums are divided, the cells of one region keep
    parts of it along its longest side.
    """
    longest = grids.longest[:, : grids.rank].copy()
    shortest = grids.of_cuts(lambda own: min(b - a for a, b in own))[:, : grids.rank]
    if grids.rank:
        every, side = np.arange(len(grids)), longest.argmax(axis=1)
        others = longest.copy()
        others[every, side] = 0
        clear = (grids.parts > 1) & (shortest[every, side] > others.max(axis=1))
        parts = np.where(clear, grids.parts, 1)
        longest[every, side] = -(-longest[every, side] // parts)
    return longest


def _axes(layer: Layer, op: Op) -> list[int | None] | None:
    """The axis of the layer's result that each dimension of the operator's is; None for those with
    one element, and for all where they are not the same but for such.
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
) -> list[Extents] | None:
    """The region that is computed, and those needed of the operands; None where dimensions share
    axes.
    """
    if op.follows is None:
        return None
    found, sides = [], _Sides(op, axes, grids)
    for which, dimensions in enumerate(op.follows):
        used: list[int] = []
        longest = np.ones((len(grids), len(dimensions)), np.int64)
        values = np.ones(len(grids), np.int64)
        for place, pair in enumerate(dimensions):
            own = sides.axes_of(pair)
            used += [axis for axis in own if axis is not None]
            at = tuple(_at(grids, axis) for axis in own)
            most, total, distinct = (table[at] for table in sides.tables(pair, which, place))
            longest[:, place], values = most, values * (distinct if multicast else total)
        if len(set(used)) < len(used):
            return None
        if not multicast:
            others = [axis for axis in range(len(grids.cuts)) if axis not in used]
            values = values * grids.counts[:, others].prod(axis=1)
        found.append(Extents(longest, values))
    return found


def _at(grids: Grids, axis: int | None) -> Integers:
    return np.zeros(len(grids), np.int64) if axis is None else grids.index[:, axis]


@dataclass
class _Sides:
    """Sides of the regions of one operator, asked once for each pair of intervals."""

    op: Op
    axes: Sequence[int | None]
    grids: Grids
    known: dict[object, tuple[Sides, ...]] = field(default_factory=dict)

    def axes_of(self, pair: Pair) -> tuple[int | None, int | None]:
        """The axes of the grids that a dimension follows."""
        dimension, term = pair
        axis = None if dimension is None else self.axes[dimension]
        return axis, None if term is None else self.grids.rank + term

    def tables(self, pair: Pair, which: int, place: int) -> tuple[Integers, ...]:
        """One dimension of a region for each cut of its axis and each of its terms: its longest
        side, the sum of all, and that of the different ones.
        """
        axis, behind = self.axes_of(pair)
        table = [
            [
                _measures([self._asked(pair, a, b)[which][place] for a in one for b in other])
                for other in _cuts(self.grids, behind)
            ]
            for one in _cuts(self.grids, axis)
        ]
        found = np.array(table, np.int64)
        return tuple(found[..., number] for number in range(found.shape[2]))

    def _asked(self, pair: Pair, one: Interval, other: Interval) -> tuple[Sides, ...]:
        key = (*pair, one, other)
        if key not in self.known:
            (dimension, term), (axis, behind) = pair, self.axes_of(pair)
            region, terms = Box.whole(self.op.out_shape), Box.whole(self.op.terms)
            if dimension is not None and axis is not None:
                region = region.along(dimension, one)
            if term is not None and behind is not None:
                terms = terms.along(term, other)
            self.known[key] = tuple(box.sides for box in asked(self.op, region, terms))
        return self.known[key]


def _cuts(grids: Grids, axis: int | None) -> Sequence[Cut]:
    return (((0, 0),),) if axis is None else grids.cuts[axis]


def _measures(sides: Sequence[Interval]) -> tuple[int, int, int]:
    lengths = [max(b - a, 0) for a, b in sides]
    return max(lengths), sum(lengths), sum(max(b - a, 0) for a, b in set(sides))
