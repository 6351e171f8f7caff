"""Volumes: how many values move, for all grids of a layer at once.

In: a layer and grids, cell j on core j. Out: arrays with one entry per grid, and matrices with one
entry per pair of grids of two layers. A value counts once per core that receives it, or once in all
where the fabric multicasts; regions are of the real tensors, without padding. The numbers agree
with `moves`. Operands' regions come from `Op.computable` and `Op.needed`, for many regions at once:
where dimensions are independent (`Op.follows`), the operator is queried once per distinct interval
that it does not pass unchanged, otherwise once per distinct region.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import zip_longest
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilewright.ops.box import Box, Interval
from tilewright.ops.op import Follows, Op, Pair
from tilewright.partition.compiled import (
    Bounds,
    busiest_links,
    busiest_sums,
    common_values,
    most_received,
    multicast_values,
    sizes_of_boxes,
)
from tilewright.partition.grids import Grids, Integers, Numbers, Parts, Regions, numbered, parts_in
from tilewright.partition.layers import Layer, LayerStep
from tilewright.partition.objective import CoreModel
from tilewright.partition.parts import box_of

Question = tuple[Interval, Interval]
"""An interval of a dimension of the result, and one of a term."""
Answer = tuple[Interval, ...]
"""Intervals of all regions' dimensions that follow the question's."""
_MOST_OPERATORS = 64
"""Operators whose answers are cached."""


def taken(op: Op, result: Regions, terms: Regions, first: int = 0) -> list[Regions]:
    """Regions that `op` computes for the regions `result`, then the regions that it needs of each
    operand. The list starts at index `first`, where 0 is the computed one.
    """
    if op.follows is None:
        both = np.concatenate([result, terms], axis=1)
        return mapped(both, lambda box: asked(op, *_split(box, result.shape[1])))[first:]
    places = {
        pair: followed
        for pair, followed in followers_of(op.follows).items()
        if any(which >= first for which, _ in followed)
    }
    questions, numbers = dict[Pair, list[Question]](), dict[Pair, Numbers]()
    found = [np.empty((len(result), len(each), 2), np.int64) for each in op.follows]
    for pair, followed in places.items():
        side = _copied(op, pair, followed)
        if side is None:
            questions[pair], numbers[pair] = _questions(result, terms, pair)
            continue
        for which, dimension in followed:
            if which >= first:
                found[which][:, dimension] = (result, terms)[side][:, pair[side]]
    for pair, given in answers(op, questions).items():
        table = np.array(given, np.int64)
        for own, (which, dimension) in enumerate(places[pair]):
            found[which][:, dimension] = table[numbers[pair], own]
    return found[first:]


def _copied(op: Op, pair: Pair, followed: Sequence[tuple[int, int]]) -> int | None:
    """Index of the interval in a question that its followers copy unchanged, 0 for the dimension's
    and 1 for the term's; None where the operator has to be queried.
    """
    single = pair.count(None) == 1 and op.unchanged.issuperset(followed)
    return 1 - pair.index(None) if single else None


def mapped(boxes: Regions, function: Callable[[Box], Sequence[Box]]) -> list[Regions]:
    """The boxes that `function` returns for each box; it is called once per distinct box."""
    flat = boxes.reshape(len(boxes), -1)
    distinct, numbers = np.unique(flat, axis=0, return_inverse=True)
    made = [function(box_of(row.reshape(boxes.shape[1:]))) for row in distinct]
    ends = ([(box.start, box.stop) for box in column] for column in zip(*made, strict=True))
    return [np.array(column, np.int64).swapaxes(1, 2)[numbers.ravel()] for column in ends]


def followers_of(follows: Sequence[Follows]) -> dict[Pair, list[tuple[int, int]]]:
    """For each pair of a dimension and a term its followers, as (region, dimension of the region),
    where region 0 is the computed one and the operands' come next.
    """
    found: dict[Pair, list[tuple[int, int]]] = {}
    for which, dimensions in enumerate(follows):
        for dimension, pair in enumerate(dimensions):
            found.setdefault(pair, []).append((which, dimension))
    return found


def answers(op: Op, questions: Mapping[Pair, Sequence[Question]]) -> dict[Pair, list[Answer]]:
    """For each pair the answer to each of its questions."""
    known, places = _known_answers(cast("Hashable", op)), followers_of(op.follows or ())
    found, others = dict[Pair, list[Answer]](), dict[Pair, list[Question]]()
    for pair, own in questions.items():
        side = _copied(op, pair, places[pair])
        if side is None:
            table = known.setdefault(pair, {})
            others[pair] = [*dict.fromkeys(q for q in own if q not in table)]
        else:
            found[pair] = [(question[side],) * len(places[pair]) for question in own]
    _ask(op, others, known)
    return found | {pair: [known[pair][q] for q in questions[pair]] for pair in others}


def _ask(
    op: Op, questions: Mapping[Pair, Sequence[Question]], known: dict[Pair, dict[Question, Answer]]
) -> None:
    """Add the answers to `known`; one call of `asked` answers one question of every pair in a group
    that shares no dimension.
    """
    places = followers_of(op.follows or ())
    read = cache(op.needed)
    for pairs in _apart(questions):
        for row in zip_longest(*(questions[pair] for pair in pairs)):
            region, terms = ([*Box.whole(shape).sides] for shape in (op.out_shape, op.terms))
            given = [(pair, q) for pair, q in zip(pairs, row, strict=True) if q is not None]
            for (dimension, term), (side, part) in given:
                if dimension is not None:
                    region[dimension] = side
                if term is not None:
                    terms[term] = part
            boxes = asked(op, Box.of(*region), Box.of(*terms), read)
            for pair, question in given:
                known[pair][question] = tuple(
                    [(boxes[w].start[d], boxes[w].stop[d]) for w, d in places[pair]]
                )


@lru_cache(_MOST_OPERATORS)
def _known_answers(op: Hashable) -> dict[Pair, dict[Question, Answer]]:
    """Cached answers of an operator: bounds, the first plan and the full space query the same."""
    return {}


def _apart(questions: Mapping[Pair, Sequence[Question]]) -> list[list[Pair]]:
    """Pairs in groups without a common dimension or term, so that one query serves a group; those
    with the most questions come first.
    """
    groups: list[list[Pair]] = []
    for pair in sorted(questions, key=lambda pair: -len(questions[pair])):
        own = {*enumerate(pair)} - {(0, None), (1, None)}
        alone = (g for g in groups if own.isdisjoint(x for other in g for x in enumerate(other)))
        group = next(alone, None)
        if group is None:
            groups.append(group := [])
        group.append(pair)
    return groups


def _questions(result: Regions, terms: Regions, pair: Pair) -> tuple[list[Question], Numbers]:
    """The distinct questions of a pair over all regions, and the index of each region's."""
    dimension, term = pair
    own, numbers = _distinct(None if dimension is None else result[:, dimension], len(result))
    parts, others = _distinct(None if term is None else terms[:, term], len(result))
    together, places = numbered(numbers * len(parts) + others)
    codes = (divmod(code, len(parts)) for code in together.tolist())
    return [(own[side], parts[part]) for side, part in codes], places


def _distinct(sides: Regions | None, count: int) -> tuple[list[Interval], Numbers]:
    """The distinct intervals, and the index of each region's; without `sides`, a placeholder."""
    if sides is None:
        return [(0, 0)], np.zeros(count, np.intp)
    span = int(sides.max()) + 1
    codes, numbers = numbered(sides[:, 0] * span + sides[:, 1])
    return [(code // span, code % span) for code in codes.tolist()], numbers


def _split(box: Box, rank: int) -> tuple[Box, Box]:
    """Split a box into the region of a result and the terms that follow it."""
    return Box.of(*box.sides[:rank]), Box.of(*box.sides[rank:])


def asked(
    op: Op, result: Box, terms: Box, needed: Callable[..., tuple[Box, ...]] | None = None
) -> tuple[Box, ...]:
    """The region that `op` computes for `result`, then the regions needed of the operands; `needed`
    may be a cached version of `op.needed`.
    """
    given = terms if terms.start else None
    computed = op.computable(result, given)
    return computed, *(needed or op.needed)(computed, given)


CHANNELS = 1
"""The dimension of a result that weights belong to."""


@dataclass(frozen=True)
class GridArrays:
    """Grids of one layer; regions are arrays over (grid, core, dimension, first and last).

    `weights` counts the weights that all cores load, `sums` the partial sums that they exchange,
    which takes `sums_cycles` (0 unless timed). `work` is the busiest core's fraction of the layer's
    operations. `buffers` is the most values in one buffer of a core: either its inputs with the
    weights of two output channels, one in use and the next, or its sums.
    """

    grids: Grids
    kept: Regions
    owned: Regions
    needs: tuple[tuple[str, Regions], ...]
    weights: Integers
    sums: Integers
    work: NDArray[np.float64]
    buffers: Integers
    sums_cycles: NDArray[np.float64]


def grid_options(
    layer: Layer, grids: Grids, cores: int, model: CoreModel | None = None, *, timed: bool = False
) -> GridArrays:
    """Arrays for grids of `layer` with at most `cores` cells; if `timed`, with `sums_cycles`."""
    every = _Every(len(grids), cores, parts_in(grids))
    found = every.cells
    summed, *_ = _back(layer, found.region)
    own, *behind = _back(layer, found.kept)
    steps = zip(layer.steps[1:], behind, strict=True)
    others = [boxes for step, region in steps for boxes in _step_weights(step, region)]
    partial = (grids.parts > 1)[found.grid]
    computed, *operands = taken(layer.op, summed, found.terms)
    needs, streamed = [], []
    for name, boxes in zip(layer.steps[0].operands, operands, strict=True):
        if name in layer.reads:
            needs.append((name, every.spread(boxes)))
        else:
            streamed.append(boxes)
    read = sum((sizes(need) for _, need in needs), np.zeros((len(grids), cores), np.int64))
    ahead = 2 * _of_a_channel(streamed, computed)
    sums = np.zeros(len(partial), np.int64)
    sums[partial] = sizes(summed[partial]) - _common(summed[partial], own[partial])
    whole = math.prod(layer.op.out_shape) * math.prod(layer.op.terms)
    work = sizes(computed) * sizes(found.terms) / whole
    multicast = model is not None and model.multicasts
    kept = every.spread(found.kept)
    alike = found.owned is found.kept
    return GridArrays(
        grids,
        kept,
        kept if alike else every.spread(found.owned),
        tuple(needs),
        sum((every.loads(boxes, multicast) for boxes in (*others, *streamed)), every.none),
        every.total(sums),
        every.spread(work).max(axis=1),
        np.maximum(read + every.spread(ahead), every.spread(sizes(summed))).max(axis=1),
        _sums_cycles(every, grids, summed, own, model if timed else None),
    )


@dataclass(frozen=True)
class _Every:
    """The cells of some grids, cell j on core j."""

    grids: int
    cores: int
    cells: Parts

    @property
    def none(self) -> Integers:
        """Zero for each grid."""
        return np.zeros(self.grids, np.int64)

    def spread(self, found: NDArray[Any]) -> NDArray[Any]:
        """Rearrange an array over cells to (grid, core); cores without a cell get zeros."""
        found = lifted(found) if found.ndim > 1 else found
        spread = np.zeros((self.grids, self.cores, *found.shape[1:]), found.dtype)
        spread[self.cells.grid, self.cells.core] = found
        return spread

    def total(self, found: Integers) -> Integers:
        """Sum over the cells of each grid."""
        return np.bincount(self.cells.grid, found, self.grids).astype(np.int64)

    def loads(self, boxes: Regions, multicast: bool) -> Integers:
        """Values of one tensor that main memory delivers for each grid; with `multicast`, a region
        that several cores read is delivered once.
        """
        if multicast:
            return loaded(self.spread(boxes), multicast)
        return self.total(sizes(lifted(boxes)))


def lifted(boxes: Regions) -> Regions:
    """Boxes of scalars as one-element vectors, since no box without dimensions is empty."""
    one = np.array([[0, 1]])
    return boxes if boxes.shape[1] else np.tile(one, (len(boxes), 1, 1))


def loaded(boxes: Regions, multicast: bool) -> Integers:
    """Values in regions over (grid, core), per grid; with `multicast`, equal regions count once."""
    if not multicast:
        every: Integers = sizes(boxes).sum(axis=1)
        return every
    grids, cores = boxes.shape[:2]
    numbers = np.repeat(np.arange(grids), cores)
    flat = np.column_stack([numbers, boxes.reshape(grids * cores, -1)])
    distinct = np.unique(flat, axis=0)
    of_each = sizes(distinct[:, 1:].reshape(len(distinct), *boxes.shape[2:]))
    found: Integers = np.bincount(distinct[:, 0], of_each, grids).astype(np.int64)
    return found


def _of_a_channel(weights: Sequence[Regions], computed: Regions) -> Integers:
    """Weights of one output channel in each cell, rounded up."""
    every = sum((sizes(boxes) for boxes in weights), np.zeros(len(computed), np.int64))
    if computed.shape[1] <= CHANNELS:
        return every
    sides = computed[:, CHANNELS]
    channels: Integers = np.maximum(sides[:, 1] - sides[:, 0], 1)
    return (every + channels - 1) // channels


def _sums_cycles(
    every: _Every, grids: Grids, summed: Regions, own: Regions, model: CoreModel | None
) -> NDArray[np.float64]:
    """Cycles of each grid's exchange of partial sums; 0 without a model."""
    found = np.zeros(every.grids)
    partial = np.flatnonzero(grids.parts > 1)
    if model is not None and len(partial):
        have, finish = every.spread(summed)[partial], every.spread(own)[partial]
        busiest, farthest = busiest_sums(have, finish, model.fabric_sizes, model.multicasts)
        found[partial] = model.exchange_cycles(busiest * model.sum_values, farthest)
    return found


def selected(table: GridArrays, numbers: NDArray[np.intp]) -> GridArrays:
    """The options restricted to some of the grids."""
    return GridArrays(
        table.grids[numbers],
        table.kept[numbers],
        table.owned[numbers],
        tuple((name, boxes[numbers]) for name, boxes in table.needs),
        table.weights[numbers],
        table.sums[numbers],
        table.work[numbers],
        table.buffers[numbers],
        table.sums_cycles[numbers],
    )


def sizes(boxes: Regions) -> Integers:
    """Number of elements of each box in an array."""
    *around, rank, ends = boxes.shape
    flat = np.ascontiguousarray(boxes).reshape(math.prod(around), rank, ends)
    return sizes_of_boxes(flat).reshape(around)


def moved_values(kept: Regions, need: Regions, multicast: bool = False) -> Integers:
    """Values moved for each pair (producer's grid, reader's grid): the values that cores need and
    do not keep. With `multicast`, a box that an owner sends to several cores counts once.
    """
    if multicast:
        return multicast_values(kept, need)
    found: Integers = sizes(need).sum(axis=1) - common_values(*_by_dimension(kept, need))
    return found


def _by_dimension(kept: Regions, need: Regions) -> tuple[Bounds, Bounds]:
    """Both arrays over (grid, dimension, first and last, core), without dimensions of one element,
    in 32 bits if these hold the number of elements.
    """
    extents = np.maximum(kept.max(axis=(0, 1))[:, 1], need.max(axis=(0, 1))[:, 1])
    wide = np.flatnonzero(extents > 1) if (extents > 1).any() else [0]
    few = math.prod(extents.tolist()) < 2**31

    def turned(boxes: Regions) -> Bounds:
        found = boxes[:, :, wide].transpose(0, 2, 3, 1)
        if few:
            return np.ascontiguousarray(found, np.int32)
        return np.ascontiguousarray(found)

    return turned(kept), turned(need)


def exchange_cycles_by_grids(
    owned: Regions, kept: Regions, need: Regions, model: CoreModel
) -> NDArray[np.float64]:
    """Cycles of the exchange for each pair of grids; cores receive what they need and lack."""
    found = busiest_links(owned, kept, need, model.fabric_sizes, model.multicasts)
    return model.exchange_cycles(*found)


def least_exchange_cycles(kept: Regions, need: Regions, model: CoreModel) -> NDArray[np.float64]:
    """Lower bound on the cycles of each exchange: the transfer over the busiest receiving port."""
    received = most_received(kept, need)
    return model.exchange_cycles(received, np.zeros_like(received))


def _back(layer: Layer, result: Regions) -> list[Regions]:
    """Regions that each step computes, in order, for the regions `result` of the layer."""
    found = [result]
    for step in reversed(layer.steps[1:]):
        if step.op.input_shapes[0] != step.op.out_shape:
            some = sizes(result) > 0
            before = np.zeros((len(result), len(step.op.input_shapes[0]), 2), np.int64)
            (before[some], *_) = mapped(result[some], step.op.needed)
            result = before
        found.append(result)
    return found[::-1]


def _step_weights(step: LayerStep, result: Regions) -> list[Regions]:
    """Regions of its weights, all operands but the first, that a step reads."""
    if len(step.operands) == 1:
        return []
    none = np.zeros((len(result), 0, 2), np.int64)
    found = [lifted(boxes) for boxes in taken(step.op, result, none, 2)]
    empty = sizes(result) == 0
    for boxes in found:
        boxes[empty] = 0
    return found


def _common(one: Regions, other: Regions) -> Integers:
    """Number of elements in the intersection of each pair of boxes."""
    both = np.empty_like(one)
    np.maximum(one[..., 0], other[..., 0], out=both[..., 0])
    np.minimum(one[..., 1], other[..., 1], out=both[..., 1])
    return sizes(both)
