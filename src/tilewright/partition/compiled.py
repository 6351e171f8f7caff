"""Costs of exchanges between all pairs of grids, and what their cells have, compiled.

One group of functions counts the values that cores keep locally or receive, and bounds them. The
other routes the same exchanges as messages over links, like `moves` and `machine.messages.links`;
tests check that both agree.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from tilewright.common.compiled import entry_point, piece

Integers = NDArray[np.int64]
Marks = NDArray[np.uint8]
Costs = NDArray[np.float64]
Bounds = NDArray[np.int32] | NDArray[np.int64]
"""Regions as an array over (grid, dimension, first and last, core)."""
_BLOCK = 16
"""Readers' grids per block: their regions stay in the cache while the producer's grids pass."""


@entry_point()
def sides_of_cells(
    places: Integers, strides: Integers, counts: Integers, cells: Integers, sides: Integers
) -> Integers:
    """The interval of each cell along each axis, (cell, axis, first and last), grid after grid. For
    each grid and axis, `places` is the index of its first interval in `sides`, `counts` the number
    of its intervals and `strides` the distance in cells from one interval to the next.
    """
    axes = places.shape[1]
    found = np.empty((cells.sum(), axes, 2), np.int64)
    number = 0
    for grid in range(len(cells)):
        for core in range(cells[grid]):
            for axis in range(axes):
                place = places[grid, axis] + core // strides[grid, axis] % counts[grid, axis]
                found[number, axis, 0], found[number, axis, 1] = sides[place, 0], sides[place, 1]
            number += 1
    return found


@entry_point()
def sizes_of_boxes(boxes: Integers) -> Integers:
    """Number of elements of each box of an array over (box, dimension, first and last)."""
    count, rank, _ = boxes.shape
    found = np.ones(count, np.int64)
    for box in range(count):
        for d in range(rank):
            found[box] *= max(boxes[box, d, 1] - boxes[box, d, 0], 0)
    return found


@entry_point()
def common_values(kept: Bounds, need: Bounds) -> Integers:
    """Values that cores both need and keep, summed over the cores, for each pair of grids. Cores
    are the last axis of both arrays, so that the loop over them vectorises.
    """
    grids, rank, _, cores = kept.shape
    found = np.zeros((grids, len(need)), np.int64)
    common, none = np.zeros(cores, kept.dtype), kept.dtype.type(0)
    for block in range(0, len(need), _BLOCK):
        for one in range(grids):
            for other in range(block, min(block + _BLOCK, len(need))):
                common[:] = 1
                for d in range(rank):
                    start, stop = kept[one, d, 0], kept[one, d, 1]
                    first, last = need[other, d, 0], need[other, d, 1]
                    for core in range(cores):
                        side = min(stop[core], last[core]) - max(start[core], first[core])
                        side = max(kept.dtype.type(side), none)
                        common[core] = kept.dtype.type(common[core] * side)
                total = 0
                for core in range(cores):
                    total += common[core]
                found[one, other] = total
    return found


@entry_point()
def most_received(kept: Integers, need: Integers) -> Integers:
    """Largest number of values that one core needs and does not keep, for each pair of grids. It
    bounds the load of the busiest core's port from below.
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
def nearest_values(kept: Integers, need: Integers) -> Integers:
    """For each pair of grids, the values that each core needs and its best owner keeps, summed over
    the cores. It bounds the values that any placement of parts saves from moving.
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


@piece
def _least_exchange(kept: Integers, need: Integers, prices: Costs) -> float:
    """Lower bound on the cost of an exchange between a producer's grid and a reader's. `kept` lists
    the producer's cells and the longest sides that they keep; `need` lists the reader's cells, the
    values that they need, and their longest sides. `prices` are per value, per exchange, and per
    value at a core's port.
    """
    common = 1
    for d in range(len(kept) - 1):
        common *= min(kept[1 + d], need[2 + d])
    values = max(need[1] - common * min(kept[0], need[0]), 0)
    if values == 0:
        return 0.0
    return float(prices[0] * values + prices[1] + prices[2] * (values / need[0]))


@entry_point()
def least_paired(
    costs: Costs, kept: Integers, need: Integers, prices: Costs, received: bool
) -> Costs:
    """For each grid of one layer, the least sum of `costs` of a grid of the other layer and the
    lower bound of their exchange. If `received`, the result is per reader's grid and `costs` per
    producer's, else the reverse.
    """
    count, others = (len(need), len(kept)) if received else (len(kept), len(need))
    found = np.full(count, np.inf)
    for own in range(count):
        for other in range(others):
            if costs[other] < found[own]:
                one, reader = (other, own) if received else (own, other)
                cost = costs[other] + _least_exchange(kept[one], need[reader], prices)
                found[own] = min(found[own], cost)
    return found


LINKS = 6
"""Links of a core, in order: east, west, south, north, its outgoing and its incoming port."""


@entry_point()
def multicast_values(kept: Integers, need: Integers) -> Integers:
    """Values sent for each pair of grids; one message carries an owner's box to several cores."""
    grids, cores, rank, _ = kept.shape
    found = np.zeros((grids, len(need)), np.int64)
    boxes = np.zeros((cores, rank, 2), np.int64)
    table, touched = np.zeros((cores, 3), np.int64), np.zeros(cores, np.uint8)
    sides = np.zeros((rank, 2, cores), np.int64)
    for other in range(len(need)):
        _turn(need[other], sides)
        for one in range(grids):
            for owner in range(cores):
                _touch(kept[one, owner], sides, touched)
                count = _messages(kept[one], kept[one], need[other], owner, boxes, table, touched)
                _mark_equal(boxes, table, count)
                for number in range(count):
                    if table[number, 2] == number:
                        found[one, other] += table[number, 1]
    return found


@entry_point()
def busiest_links(
    owned: Integers, kept: Integers, need: Integers, sizes: tuple[int, int, int], multicast: bool
) -> tuple[Integers, Integers]:
    """For each pair of grids, the values over the exchange's busiest link or port, and the links of
    its longest route. Messages go along rows first. `sizes` are the fabric's rows, its columns, and
    which of them are rings (1: rows, 2: columns, 3: both). With `multicast`, a box that an owner
    sends to several cores passes each link once.
    """
    grids, cores, rank, _ = owned.shape
    busiest = np.zeros((grids, len(need)), np.int64)
    farthest = np.zeros((grids, len(need)), np.int64)
    # Routes may cross positions of the last row that hold no core in use.
    places = max(sizes[0], -(-cores // sizes[1])) * sizes[1]
    loads, passed = np.zeros(LINKS * places, np.int64), np.zeros(LINKS * places, np.int64)
    boxes, way = np.zeros((cores, rank, 2), np.int64), np.zeros(places + 2, np.int64)
    table, touched = np.zeros((cores, 3), np.int64), np.zeros(cores, np.uint8)
    sides, stamp = np.zeros((rank, 2, cores), np.int64), 0
    scratch = loads, passed, boxes, way, table
    for other in range(len(need)):
        _turn(need[other], sides)
        for one in range(grids):
            farthest[one, other], stamp = _exchange(
                owned[one], kept[one], need[other], sides, sizes, multicast, stamp, touched, scratch
            )
            busiest[one, other] = loads.max()
    return busiest, farthest


def busiest_sums(
    have: Integers, finish: Integers, sizes: tuple[int, int, int], multicast: bool
) -> tuple[Integers, Integers]:
    """`busiest_links` of each grid's own exchange of partial sums."""
    nothing = np.zeros((1, *have.shape[1:]), np.int64)
    found = [
        busiest_links(own[None], nothing, to[None], sizes, multicast)
        for own, to in zip(have, finish, strict=True)
    ]
    busiest, farthest = np.array(found, np.int64).reshape(-1, 2).T
    return busiest, farthest


@entry_point()
def arrivals(
    leaves: Costs, ends: Integers, links: Integers, hops: Costs, passes: Integers,
    spacing: Costs, lasting: Costs, free: Costs,
) -> Costs:  # fmt: skip
    """Arrival time of each message; links serve messages in order of arrival. `ends[n]` ends the
    route of message n in `links` and in `hops`, the cycles to each link from the one before.
    Entries of equal number in `passes` are one pass of a link, as in a multicast. A link is `free`
    again `spacing` cycles after a message has entered it; a message has arrived `lasting` cycles
    after it entered its last link.
    """
    found, entered = np.zeros(len(leaves)), np.full(len(passes), -1.0)
    waiting = [(leaves[n], n, ends[n - 1] if n else 0) for n in range(len(leaves))]
    heapify(waiting)
    while waiting:
        first, n, place = heappop(waiting)
        link, hop, own = links[place], hops[place], passes[place]
        if entered[own] < 0:
            ready = (first - hop) + hop
            entered[own] = ready if ready >= free[link] else free[link] + hop
            free[link] = entered[own] + spacing[n]
        if place + 1 < ends[n]:
            heappush(waiting, (entered[own] + hops[place + 1], n, place + 1))
        else:
            found[n] = entered[own] + lasting[n]
    return found


@piece
def _exchange(
    owned: Integers,
    kept: Integers,
    need: Integers,
    sides: Integers,
    sizes: tuple[int, int, int],
    multicast: bool,
    stamp: int,
    touched: Marks,
    scratch: tuple[Integers, Integers, Integers, Integers, Integers],
) -> tuple[int, int]:
    """Count the values over each link in one exchange. `sides` is `need` as `_turn` lays it out.
    Returns the links of the longest route, and the last `stamp` used.
    """
    loads, passed, boxes, way, table = scratch
    ways = len(loads) // LINKS // sizes[1], sizes[1], sizes[2]
    loads[:] = 0
    farthest = 0
    for owner in range(len(need)):
        _touch(owned[owner], sides, touched)
        count = _messages(owned, kept, need, owner, boxes, table, touched)
        if multicast:
            _mark_equal(boxes, table, count)
        for lead in range(count):
            if multicast and table[lead, 2] != lead:
                continue
            stamp += 1
            for number in range(lead, count if multicast else lead + 1):
                if number == lead or table[number, 2] == lead:
                    links = _way(owner, table[number, 0], ways, way)
                    farthest = max(farthest, links - 2)
                    _load(way[:links], table[lead, 1], stamp, loads, passed)
    return farthest, stamp


@piece
def _load(way: Integers, size: int, stamp: int, loads: Integers, passed: Integers) -> None:
    """Add a message to the links of its way; messages of one `stamp` pass a link once."""
    for link in way:
        if passed[link] != stamp:
            passed[link] = stamp
            loads[link] += size


@piece
def _turn(need: Integers, sides: Integers) -> None:
    """Transpose boxes (core, dimension, first and last) to (dimension, first and last, core), so
    that loops over the cores vectorise.
    """
    for core in range(len(need)):
        for d in range(need.shape[1]):
            sides[d, 0, core], sides[d, 1, core] = need[core, d, 0], need[core, d, 1]


@piece
def _touch(owned: Integers, sides: Integers, touched: Marks) -> None:
    """Mark the cores whose needs may overlap an owner's box; all others need nothing of it."""
    touched[:] = 1
    for d in range(len(owned)):
        start, stop, first, last = owned[d, 0], owned[d, 1], sides[d, 0], sides[d, 1]
        for core in range(len(touched)):
            touched[core] &= np.uint8((first[core] < stop) & (last[core] > start))


@piece
def _messages(
    owned: Integers, kept: Integers, need: Integers, owner: int, boxes: Integers, table: Integers,
    touched: Marks,
) -> int:  # fmt: skip
    """Write the messages of `owner` to the cores that are `touched`: the box of each to `boxes`,
    and to `table` its target, the values that the target does not keep already, and its own number.
    Returns the number of messages.
    """
    count = 0
    touched[owner] = 0
    for core in range(len(need)):
        if touched[core] == 0:
            continue
        size, present = 1, 1
        for d in range(owned.shape[1]):
            first = max(owned[owner, d, 0], need[core, d, 0])
            last = min(owned[owner, d, 1], need[core, d, 1])
            boxes[count, d, 0], boxes[count, d, 1] = first, last
            size *= max(last - first, 0)
            present *= max(min(last, kept[core, d, 1]) - max(first, kept[core, d, 0]), 0)
        if size != present:
            table[count, 0], table[count, 1], table[count, 2] = core, size - present, count
            count += 1
    return count


@piece
def _mark_equal(boxes: Integers, table: Integers, count: int) -> None:
    """Write to `table`, for each message, the number of the first one with an equal box."""
    for number in range(count):
        for before in range(number):
            if table[before, 1] == table[number, 1] and _equal(boxes[before], boxes[number]):
                table[number, 2] = before
                break


@piece
def _equal(one: Integers, other: Integers) -> bool:
    same = True
    for d in range(len(one)):
        same &= one[d, 0] == other[d, 0] and one[d, 1] == other[d, 1]
    return same


@piece
def _hops(source: int, target: int, length: int, ring: bool) -> int:
    """Signed steps along a row or column, as `machine.messages` counts them."""
    direct = target - source
    if not ring or 2 * abs(direct) < length:
        return direct
    if 2 * abs(direct) == length:
        return abs(direct) if source % 2 == 0 else -abs(direct)
    return direct - length if direct > 0 else direct + length


@piece
def _wrapped(place: int, length: int) -> int:
    """A position on a ring, from one that is at most one step beyond an end."""
    if place == length:
        return 0
    return length - 1 if place < 0 else place


@piece
def _way(source: int, target: int, sizes: tuple[int, int, int], way: Integers) -> int:
    """Write the links from one core to another to `way`, both ports first; returns their number."""
    rows, columns, rings = sizes
    way[0], way[1] = LINKS * source + 4, LINKS * target + 5
    across = _hops(source % columns, target % columns, columns, rings & 1 != 0)
    along = _hops(source // columns, target // columns, rows, rings & 2 != 0)
    row, column, count = source // columns, source % columns, 2
    while across != 0 or along != 0:
        here = LINKS * (row * columns + column)
        if across != 0:
            way[count] = here + (0 if across > 0 else 1)
            step = 1 if across > 0 else -1
            across, column = across - step, _wrapped(column + step, columns)
        else:
            way[count] = here + (2 if along > 0 else 3)
            step = 1 if along > 0 else -1
            along, row = along - step, _wrapped(row + step, rows)
        count += 1
    return count
