"""Regions that operators take, for many regions of their results at once.

In: regions of a result and terms, as arrays. Out: what `computable` and `needed` say of each, as
arrays. Where dimensions decide one by one (`Op.follows`) the operator is asked once for every
interval that occurs, elsewhere once for every region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.ops.box import Box, Interval
from tilewright.ops.op import Op
from tilewright.partition.division import box_of
from tilewright.partition.grids import Integers, Regions

Numbers = NDArray[np.intp]
_MARKS = 8
"""Marks for each number that is looked at."""


def taken(op: Op, result: Regions, terms: Regions) -> list[Regions]:
    """Regions computed for those of `result`, then the regions that these need of each operand."""
    if op.follows is None:
        both = np.concatenate([result, terms], axis=1)
        return mapped(both, lambda box: asked(op, *_split(box, result.shape[1])))
    found = [np.empty((len(result), len(each), 2), np.int64) for each in op.follows]
    for pair in sorted(set(sum(op.follows, ())), key=str):
        places = [
            (which, dimension)
            for which, each in enumerate(op.follows)
            for dimension, own in enumerate(each)
            if own == pair
        ]
        sides, numbers = _sides(op, result, terms, pair, places)
        for (which, dimension), table in zip(places, sides, strict=True):
            found[which][:, dimension] = table[numbers]
    return found


def mapped(boxes: Regions, function: Callable[[Box], Sequence[Box]]) -> list[Regions]:
    """The boxes that `function` gives for each box, called once for equal ones."""
    flat = boxes.reshape(len(boxes), -1)
    distinct, numbers = np.unique(flat, axis=0, return_inverse=True)
    made = [function(box_of(row.reshape(boxes.shape[1:]))) for row in distinct]
    ends = ([(box.start, box.stop) for box in column] for column in zip(*made, strict=True))
    return [np.array(column, np.int64).swapaxes(1, 2)[numbers.ravel()] for column in ends]


def _sides(
    op: Op,
    result: Regions,
    terms: Regions,
    pair: tuple[int | None, int | None],
    places: Sequence[tuple[int, int]],
) -> tuple[list[Regions], Numbers]:
    """For each place a table of the intervals that occur there, and each region's row in it."""
    dimension, term = pair
    own, numbers = _distinct(None if dimension is None else result[:, dimension], len(result))
    parts, others = _distinct(None if term is None else terms[:, term], len(result))
    together, places_of = _numbered(numbers * len(parts) + others)
    base, base_terms = box_of(result[0]), box_of(terms[0])
    tables: list[list[Interval]] = [[] for _ in places]
    for code in together.tolist():
        side, part = own[code // len(parts)], parts[code % len(parts)]
        region = base if dimension is None else base.along(dimension, side)
        given = base_terms if term is None else base_terms.along(term, part)
        answer = asked(op, region, given)
        for table, (which, at) in zip(tables, places, strict=True):
            table.append(answer[which].sides[at])
    return [np.array(table, np.int64) for table in tables], places_of


def _distinct(sides: Regions | None, count: int) -> tuple[list[Interval], Numbers]:
    """The intervals that occur, and the number of each one's; none at all counts as one."""
    if sides is None:
        return [(0, 0)], np.zeros(count, np.intp)
    span = int(sides.max()) + 1
    codes, numbers = _numbered(sides[:, 0] * span + sides[:, 1])
    return [(code // span, code % span) for code in codes.tolist()], numbers


def _numbered(codes: Integers) -> tuple[Integers, Numbers]:
    """The different numbers in order, and which of them each is: by marks where they are small."""
    most = int(codes.max()) + 1
    if most > _MARKS * len(codes):
        found, numbers = np.unique(codes, return_inverse=True)
        return found, numbers.ravel()
    places = np.zeros(most, np.intp)
    places[codes] = 1
    found = np.flatnonzero(places)
    places[found] = np.arange(len(found))
    return found, places[codes]


def _split(box: Box, rank: int) -> tuple[Box, Box]:
    """The region of a result and the terms behind it."""
    return Box.of(*box.sides[:rank]), Box.of(*box.sides[rank:])


def asked(op: Op, result: Box, terms: Box) -> tuple[Box, ...]:
    """The region that is computed for `result`, and those needed of the operands."""
    given = terms if terms.start else None
    computed = op.computable(result, given)
    return computed, *op.needed(computed, given)
