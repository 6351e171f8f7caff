"""Costs of exchanges between all pairs of grids, as messages and the links they take, compiled.

The same messages as those of `moves`, along the same links as those of `timing.route`. Tests hold
them equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.common.compiled import entry_point, piece

Integers = NDArray[np.int64]
LINKS = 6
"""Links of a core: east, west, south, north; its ports out of it and into it."""


@entry_point()
def multicast_values(kept: Integers, need: Integers) -> Integers:
    """Values sent for each pair of grids, where one message takes a box of an owner to several
    cores.
    """
    grids, cores, rank, _ = kept.shape
    found = np.zeros((grids, len(need)), np.int64)
    boxes = np.zeros((cores, rank, 2), np.int64)
    table = np.zeros((cores, 3), np.int64)
    for one in range(grids):
        for other in range(len(need)):
            for owner in range(cores):
                count = _messages(kept[one], kept[one], need[other], owner, boxes, table)
                for number in range(count):
                    if table[number, 2] == number:
                        found[one, other] += table[number, 1]
    return found


@entry_point()
def busiest_links(
    owned: Integers, kept: Integers, need: Integers, columns: int, multicast: bool
) -> tuple[Integers, Integers]:
    """For each pair of grids, the values over the exchange's busiest link or port, and the links of
    its longest route. Messages go along rows of `columns` cores first; with `multicast`, a box that
    an owner sends to several cores passes each link once.
    """
    grids, cores, rank, _ = owned.shape
    busiest = np.zeros((grids, len(need)), np.int64)
    farthest = np.zeros((grids, len(need)), np.int64)
    # Messages pass places of the last row that no core in use takes.
    places = -(-cores // columns) * columns
    loads, passed = np.zeros(LINKS * places, np.int64), np.zeros(LINKS * places, np.int64)
    boxes = np.zeros((cores, rank, 2), np.int64)
    table = np.zeros((cores, 3), np.int64)
    way = np.zeros(places + 2, np.int64)
    stamp = 0
    for one in range(grids):
        for other in range(len(need)):
            loads[:] = 0
            for owner in range(cores):
                count = _messages(owned[one], kept[one], need[other], owner, boxes, table)
                for lead in range(count):
                    if multicast and table[lead, 2] != lead:
                        continue
                    stamp += 1
                    for number in range(lead, count if multicast else lead + 1):
                        if number == lead or table[number, 2] == lead:
                            links = _way(owner, table[number, 0], columns, way)
                            farthest[one, other] = max(farthest[one, other], links - 2)
                            _load(way[:links], table[lead, 1], stamp, loads, passed)
            busiest[one, other] = loads.max()
    return busiest, farthest


@piece
def _load(way: Integers, size: int, stamp: int, loads: Integers, passed: Integers) -> None:
    """Add a message to the links of its way; what has the same `stamp` passes a link once."""
    for link in way:
        if passed[link] != stamp:
            passed[link] = stamp
            loads[link] += size


@piece
def _messages(
    owned: Integers, kept: Integers, need: Integers, owner: int, boxes: Integers, table: Integers
) -> int:
    """Write what `owner` sends: a box of each message to `boxes`, and to `table` its target, the
    values that the target does not keep itself, and the first message with the same box. Returns
    the number of messages.
    """
    count = 0
    for core in range(len(need)):
        size, present = (0, 0) if core == owner else (1, 1)
        for d in range(owned.shape[1]):
            if size == 0:
                break
            first = max(owned[owner, d, 0], need[core, d, 0])
            last = min(owned[owner, d, 1], need[core, d, 1])
            boxes[count, d, 0], boxes[count, d, 1] = first, last
            size *= max(last - first, 0)
            present *= max(min(last, kept[core, d, 1]) - max(first, kept[core, d, 0]), 0)
        if size == present:
            continue
        table[count, 0], table[count, 1], table[count, 2] = core, size - present, count
        for before in range(count):
            if table[before, 1] == table[count, 1] and _equal(boxes[before], boxes[count]):
                table[count, 2] = before
                break
        count += 1
    return count


@piece
def _equal(one: Integers, other: Integers) -> bool:
    same = True
    for d in range(len(one)):
        same &= one[d, 0] == other[d, 0] and one[d, 1] == other[d, 1]
    return same


@piece
def _way(source: int, target: int, columns: int, way: Integers) -> int:
    """The links from one core to another in `way`, both ports included; how many there are."""
    way[0], way[1] = LINKS * source + 4, LINKS * target + 5
    here, count = source, 2
    while here != target:
        across = target % columns - here % columns
        if across > 0:
            way[count] = LINKS * here
            here += 1
        elif across < 0:
            way[count] = LINKS * here + 1
            here -= 1
        elif target > here:
            way[count] = LINKS * here + 2
            here += columns
        else:
            way[count] = LINKS * here + 3
            here -= columns
        count += 1
    return count
