"""Volumes: how many values move, for all grids of a layer at once.

In: a layer and grids, cell j on core j. Out: arrays with one entry for each grid, and one for each
pair of grids of two layers. Every message is counted once for each core that gets it; regions are
those of the real tensors, without padding. The same numbers as those of `moves`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.partition.compiled import common_values
from tilewright.partition.division import Grid, Regions, cells
from tilewright.partition.followed import mapped, taken
from tilewright.partition.layers import Layer, Step

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Grids of one layer as arrays over (grid, core, dimension, first and last).

    `weights` are the values of weights that all cores together load, `sums` the partial sums that
    they exchange; `work` is what the busiest core computes, as a part of the layer's operations.
    """

    grids: tuple[Grid, ...]
    kept: Regions
    needs: tuple[tuple[str, Regions], ...]
    weights: Integers
    sums: Integers
    work: NDArray[np.float64]


def options(layer: Layer, grids: Sequence[Grid], cores: int) -> Options:
    """The arrays of some grids of `layer` with at most `cores` cells each."""
    found = [cells(layer, grid) for grid in grids]
    region, kept, terms = (
        np.concatenate([getattr(own, name) for own in found])
        for name in ("region", "kept", "terms")
    )
    counts = np.array([grid.cells for grid in grids])
    ends = np.cumsum(counts)
    of_grid = np.repeat(np.arange(len(grids)), counts)
    place = (of_grid, np.arange(ends[-1]) - np.repeat(ends - counts, counts))
    summed, _ = _back(layer, region)
    own, weights = _back(layer, kept)
    computed, *operands = taken(layer.op, summed, terms)
    needs = []
    for name, boxes in zip(layer.steps[0].operands, operands, strict=True):
        if name in layer.reads:
            needs.append((name, _spread(boxes, place, len(grids), cores)))
        else:
            weights += sizes(boxes)
    sums = np.where(_is_partial(grids)[of_grid], sizes(summed) - _common(summed, own), 0)
    whole = math.prod(layer.op.out_shape) * math.prod(layer.op.terms)
    work = np.zeros(len(grids))
    np.maximum.at(work, of_grid, sizes(computed) * sizes(terms) / whole)
    return Options(
        tuple(grids),
        _spread(kept, place, len(grids), cores),
        tuple(needs),
        np.bincount(of_grid, weights, len(grids)).astype(np.int64),
        np.bincount(of_grid, sums, len(grids)).astype(np.int64),
        work,
    )


def selected(table: Options, numbers: NDArray[np.intp]) -> Options:
    """Some of the grids."""
    return Options(
        tuple(table.grids[i] for i in numbers),
        table.kept[numbers],
        tuple((name, boxes[numbers]) for name, boxes in table.needs),
        table.weights[numbers],
        table.sums[numbers],
        table.work[numbers],
    )


def sizes(boxes: Regions) -> Integers:
    """How many elements each box of an array has."""
    found: Integers = np.maximum(boxes[..., 1] - boxes[..., 0], 0).prod(axis=-1)
    return found


def moved(kept: Regions, need: Regions) -> Integers:
    """Values moved for each pair (grid of the producer, grid of the consumer): what cores need and
    do not have.
    """
    found: Integers = sizes(need).sum(axis=1) - common_values(kept, need)
    return found


def _back(layer: Layer, result: Regions) -> tuple[Regions, Integers]:
    """What the first step computes for regions of the layer's result, and how many weights the
    other steps take for them.
    """
    weights = np.zeros(len(result), np.int64)
    some = sizes(result) > 0
    for step in reversed(layer.steps[1:]):
        for boxes in _step_weights(step, result):
            weights += np.where(some, sizes(boxes), 0)
        if step.op.input_shapes[0] != step.op.out_shape:
            before = np.zeros((len(result), len(step.op.input_shapes[0]), 2), np.int64)
            (before[some], *_) = mapped(result[some], step.op.needed)
            result = before
    return result, weights


def _step_weights(step: Step, result: Regions) -> list[Regions]:
    """What it takes of its other operands, all of which are weights."""
    if len(step.operands) == 1:
        return []
    none = np.zeros((len(result), 0, 2), np.int64)
    return taken(step.op, result, none)[2:]


def _is_partial(grids: Sequence[Grid]) -> NDArray[np.bool_]:
    return np.array([grid.parts > 1 for grid in grids])


def _common(one: Regions, other: Regions) -> Integers:
    """Elements of both boxes."""
    start = np.maximum(one[..., 0], other[..., 0])
    stop = np.minimum(one[..., 1], other[..., 1])
    return sizes(np.stack([start, stop], axis=-1))


def _spread(
    boxes: Regions, place: tuple[NDArray[np.intp], NDArray[np.intp]], grids: int, cores: int
) -> Regions:
    """Boxes of all cells at (grid, core); empty for cores that have none."""
    found = np.zeros((grids, cores, *boxes.shape[1:]), np.int64)
    found[place] = boxes
    return found
