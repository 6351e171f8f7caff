"""Volumes: how many values move, for all divisions of a layer at once.

In: the divisions of layers, share j on core j. Out: arrays with one entry for each division, and
one for each pair of divisions of two layers. Every message is counted once for each core that gets
it; regions are those of the real tensors, without padding. The same numbers as those of `moves`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from tilewright.ops.box import Box
from tilewright.partition.division import Division, Share
from tilewright.partition.layers import Layer

Integers = NDArray[np.int64]
_CHUNK = 1 << 24
"""Numbers of one intermediate array."""


@dataclass(frozen=True)
class Options:
    """Divisions of one layer as arrays over (division, core, dimension, first and last).

    `weights` are the values of weights that all cores together load, `sums` the partial sums that
    they exchange; `work` is what the busiest core computes, as a part of the layer's operations.
    """

    divisions: tuple[Division, ...]
    kept: Integers
    needs: tuple[tuple[str, Integers], ...]
    weights: Integers
    sums: Integers
    work: NDArray[np.float64]


def options(layer: Layer, divisions: Sequence[Division], cores: int) -> Options:
    """The arrays of some divisions of `layer` over at most `cores` cores."""
    regions, worked = cache(layer.regions), cache(layer.share_of_work)
    needed, loaded = cache(layer.needed), cache(partial(_weights, layer))
    kept = [[share.kept for share in division.shares] for division in divisions]
    read = [[needed(s.summed, s.terms) for s in division.shares] for division in divisions]
    names = [name for name, _ in read[0][0]]
    arrays = (
        (name, _array([[own[i][1] for own in each] for each in read], cores))
        for i, name in enumerate(names)
    )
    weights = [sum(map(loaded, division.shares)) for division in divisions]
    sums = [_exchanged(division, regions) for division in divisions]
    work = [max(worked(s.summed, s.terms) for s in division.shares) for division in divisions]
    return Options(
        tuple(divisions),
        _array(kept, cores),
        tuple(arrays),
        np.array(weights, np.int64),
        np.array(sums, np.int64),
        np.array(work),
    )


def sizes(boxes: Integers) -> Integers:
    """How many elements each box of an array has."""
    found: Integers = np.maximum(boxes[..., 1] - boxes[..., 0], 0).prod(axis=-1)
    return found


def moved(kept: Integers, need: Integers) -> Integers:
    """Values moved for each pair (division of the producer, division of the consumer): what cores
    need and do not have.
    """
    total = sizes(need).sum(axis=1)
    found = np.empty((len(kept), len(need)), np.int64)
    step = max(1, _CHUNK // max(1, math.prod(need.shape[:3])))
    for first in range(0, len(kept), step):
        some = kept[first : first + step, None]
        own = np.ones((len(some), *need.shape[:2]), np.int64)
        for dimension in range(need.shape[2]):
            start = np.maximum(some[..., dimension, 0], need[None, ..., dimension, 0])
            stop = np.minimum(some[..., dimension, 1], need[None, ..., dimension, 1])
            own *= np.maximum(stop - start, 0)
        found[first : first + step] = total - own.sum(axis=2)
    return found


def _weights(layer: Layer, share: Share) -> int:
    return sum(box.size for _, box in layer.weights(share.summed, share.terms, share.kept))


def _exchanged(division: Division, regions: Callable[[Box], list[Box]]) -> int:
    """Partial sums that other cores finish."""
    if not division.partial:
        return 0
    own = (
        (share.summed & regions(share.kept)[0]).size if share.kept.size else 0
        for share in division.shares
    )
    return sum(share.summed.size for share in division.shares) - sum(own)


def _array(boxes: Sequence[Sequence[Box]], cores: int) -> Integers:
    """One box of each share of each division; empty for cores that have none."""
    found = np.zeros((len(boxes), cores, len(boxes[0][0].shape), 2), np.int64)
    for number, own in enumerate(boxes):
        found[number, : len(own), :, 0] = [box.start for box in own]
        found[number, : len(own), :, 1] = [box.stop for box in own]
    return found
