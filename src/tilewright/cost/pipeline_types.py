"""Records on which `cost.pipeline` and `cost.window` compose item costs.

Compiled code sees the first record of each array as a plain pointer (`compiled.at` reaches the
others): a function of a few pointers compiles several times faster than one of nested arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

CALL, COPY, GET, PUT = range(4)
"""Kinds of items. A copy is a transfer that the core makes itself, in its own time, like a call."""

OWN, APART = range(2)
"""The crowds of cores: those with a part in every transfer, and the others."""

MOST_AHEAD = 1 << 13
"""Most cycles that one crowd is ahead of the other, so that loops have a steady state: requests
made so long ago have been served.
"""

MOST_BEHIND = 64
"""Most actions that both crowds together queue."""

TURN_STATEMENTS = 2
"""Statements of a loop's turn besides address updates: counter and branch, an issue cycle each."""

MARKS = 8
"""Most iterations of a loop that are played before the rest is extrapolated."""

KEPT = MOST_BEHIND + 4
"""Entries in the queue of each crowd."""

PLACES = 6
"""Transfers tracked per buffer (`Served`): a fetch and two stores, each for both crowds."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table of values that depend on the kinds of iterations of some loops.

    For kinds of iterations k, value i is in row `base[i] + sum(strides[i, d] * k[d])`; it `varies`
    if any of its strides is not zero.
    """

    base: Ints
    strides: Ints
    varies: Flags


class LoopLevel(Protocol):
    """Loop d, outermost first, and the body inside the d outermost loops; the last record is only a
    body. Of the loop's `kinds` of iterations, the `front` and `back` ones are single iterations at
    its ends; the `period` ones between come in turn.
    """

    before: int  # span of the body's items before the inner loop: first, end
    before_end: int
    after: int  # and after it
    after_end: int
    kinds: int
    front: int
    back: int
    period: int
    base: int  # row of its number of iterations, which `varies` with the loops around it
    varies: int
    uniform: int  # 1 if all its iterations cost the same
    kind: int  # of its present iteration
    following: int  # kind of its next iteration, -1 at its end
    looped: int  # 1 if the body is inside a loop that runs more than once
    settled: int  # iterations after which it may be in its steady state
    meets: int  # 1 if all cores wait for each other in every iteration


class Item(Protocol):
    """A call or a transfer."""

    kind: int
    together: int  # 1 if the cores exchange data in it, so that all start with the last core
    level: int
    buffer: int
    base: int  # row of its costs, which `varies` with the loops around it
    varies: int


class BufferSlots(Protocol):
    """A buffer of the candidate: 1 if it is `double`, and the slot of its latest store."""

    double: int
    slot: int


class Served(Protocol):
    """A transfer of one crowd. The record of `OWN` has the `part` of both crowds."""

    first: float  # when it is done at the cores of the crowd, as in `Crowd`
    last: float
    start: float
    asked: float  # when the request of the first core arrives, and that of the last
    asked_last: float
    service: float  # cycles of all requests of the crowd
    free: float  # when the engine has served everything up to it
    part: float  # share of the cores that move anything, 0 if none is in flight
    until: float  # leading share of the cores that contains all of these


class Crowd(Protocol):
    """Cores with the same actions, one slightly after the other."""

    first: float  # clock of the core that is served first
    last: float  # clock of the last core; the others lie evenly between `start` and it
    start: float
    share: float  # of the cores that are in this crowd
    until: float  # leading share of the cores that contains all of these
    spared: float  # lead over the common clock before the crowds part, from cheaper calls
    done: int  # number of the oldest queued action
    known: int  # number of the next action to queue


class KeptAction(Protocol):
    """A queued action of a crowd: a call, a request or a wait."""

    kind: int
    amount: float  # cycles of a call, or the share of the cores that request a transfer
    row: int  # of its cost
    place: int  # of the transfer requested or waited for
    early: float  # cycles by which a call is shorter on the first core
    served: float  # cycles from the first core's clock to its data, if some requests were served


class Stride(Protocol):
    """Distance in rows between the values at consecutive kinds of iterations of one loop."""

    rows: int


class Cost(Protocol):
    """The cost of an item in one kind of iteration, in cycles unless noted; the fields from `first`
    on are for cores that keep a window of operations in flight.
    """

    service: float
    issue: float  # of a transfer; a call's on the first core; with a window: number of operations
    own: float  # a call's on cores with data; share of cores in a transfer; with a window: bytes
    apart: float  # a call's on other cores; leading share that contains a transfer's cores
    first: float  # of the first operation of several
    last: float  # of the last one
    before: float  # of issue of the statements before the operations
    behind: float  # of issue of the statements after them
    paced: float  # at least, from the issue of the first operation to that of the last


class Count(Protocol):
    """Number of iterations of a loop in one kind of iteration of the loops around it."""

    iterations: float


class Mark(Protocol):
    """The state after an iteration of a loop, for comparison with later ones."""

    own: float  # clock of the last core of each crowd
    apart: float
    free: float  # when the engine is free
    moment: float  # equal numbers: the cores are as far from each other
    waits: float  # equal numbers: the transfers in flight are as far ahead of the cores


class Clock(Protocol):
    """State of the playback: when the engine is free, and at the end when all are done."""

    loops: int
    buffers: int
    places: int  # of transfers, in `served`
    cores: int
    columns: int  # of the mesh of cores
    latency: float  # of a transfer
    issue: float  # of one request
    now: float
    free: float


class PipelineState(NamedTuple):
    """The first record of each array, as compiled code sees it."""

    clock: Clock
    levels: LoopLevel
    items: Item
    buffers: BufferSlots
    crowds: Crowd
    served: Served
    actions: KeptAction
    level_strides: Stride
    item_strides: Stride
    counts: Count
    costs: Cost
    marks: Mark


class StateRecords(NamedTuple):
    """The arrays whose first records make a `PipelineState`, for one thread."""

    clock: npt.NDArray[Any]
    levels: npt.NDArray[Any]
    items: npt.NDArray[Any]
    buffers: npt.NDArray[Any]
    crowds: npt.NDArray[Any]
    served: npt.NDArray[Any]
    actions: npt.NDArray[Any]
    level_strides: npt.NDArray[Any]
    item_strides: npt.NDArray[Any]
    counts: npt.NDArray[Any]
    costs: npt.NDArray[Any]
    marks: npt.NDArray[Any]


class Tables(NamedTuple):
    """Numbers that differ from tile to tile, and which buffers are double."""

    iterations: Floats  # (rows, tiles), of the loops
    service: Floats  # (rows, tiles), like `issue` and `own` a field of the items' `Cost`
    issue: Floats
    own: Floats
    uniform: Flags  # (loops, tiles)
    contest: Ints  # (tiles,), number of each tile's contest
    doubles: Flags  # (copies, buffers)
    others: Floats  # (fields, rows, tiles), the fields of `Cost` from `apart` or `first` on


def first_of(records: StateRecords) -> PipelineState:
    """The arguments of compiled code: the first record of each array, which keeps it alive."""
    return PipelineState(*(array[0] for array in records))


def records(kind: type, count: int) -> npt.NDArray[Any]:
    """`count` records of zeros, at least one so that there is a first."""
    return np.zeros(max(count, 1), _dtype(kind))


@cache
def _dtype(kind: type) -> np.dtype[Any]:
    """The record type of `kind`, one object for all arrays, which compiled code recognises fast."""
    formats = {"int": "i8", "float": "f8"}
    return np.dtype([(name, formats[of]) for name, of in kind.__annotations__.items()])
