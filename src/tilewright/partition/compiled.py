"""The two loops of planning that run over all pairs of grids, compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.common.compiled import entry_point

Integers = NDArray[np.int64]
Costs = NDArray[np.float64]


@entry_point()
def common_values(kept: Integers, need: Integers) -> Integers:
    """For each pair of grids, what cores need of what they keep themselves."""
    grids, cores, rank, _ = kept.shape
    found = np.zeros((grids, len(need)), np.int64)
    for one in range(grids):
        for other in range(len(need)):
            for core in range(cores):
                common = 1
                for d in range(rank):
                    start = max(kept[one, core, d, 0], need[other, core, d, 0])
                    stop = min(kept[one, core, d, 1], need[other, core, d, 1])
                    common *= max(stop - start, 0)
                found[one, other] += common
    return found


@entry_point()
def most_received(kept: Integers, need: Integers) -> Integers:
    """For each pair of grids, the most that a core needs and does not keep: no exchange leaves a
    core's port with less.
    """
    grids, cores, rank, _ = kept.shape
    found = np.zeros((grids, len(need)), np.int64)
    for one in range(grids):
        for other in range(len(need)):
            for core in range(cores):
                size, common = 1, 1
                for d in range(rank):
                    first, last = need[other, core, d, 0], need[other, core, d, 1]
                    size *= max(last - first, 0)
                    start, stop = (
                        max(kept[one, core, d, 0], first),
                        min(kept[one, core, d, 1], last),
                    )
                    common *= max(stop - start, 0)
                found[one, other] = max(found[one, other], size - common)
    return found


@entry_point()
def least_sums(first: Costs, second: Costs) -> Costs:
    """The least over k of first[i, k] + second[k, j]."""
    found = np.full((first.shape[0], second.shape[1]), np.inf)
    for i in range(first.shape[0]):
        for k in range(first.shape[1]):
            for j in range(second.shape[1]):
                found[i, j] = min(found[i, j], first[i, k] + second[k, j])
    return found


@entry_point()
def nearest_values(kept: Integers, need: Integers) -> Integers:
    """For each pair of grids, what cores need of what the core that has most of it keeps: no
    placement leaves more where it is read.
    """
    grids, cores, rank, _ = kept.shape
    found = np.zeros((grids, len(need)), np.int64)
    for one in range(grids):
        for other in range(len(need)):
            for core in range(cores):
                most = 0
                for owner in range(cores):
                    common = 1
                    for d in range(rank):
                        start = max(kept[one, owner, d, 0], need[other, core, d, 0])
                        stop = min(kept[one, owner, d, 1], need[other, core, d, 1])
                        common *= max(stop - start, 0)
                        if common == 0:
                            break
                    most = max(most, common)
                found[one, other] += most
    return found
