"""The records that the composition of item costs works on.

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
"""Kinds of items; a copy is a transfer that the core itself makes, like a call in its own time."""

OWN, APART = range(2)
"""The crowds of cores: those that have a part in every transfer, and those apart."""

MOST_AHEAD = 1 << 13
"""Cycles that some cores are ahead of others at most, so that loops have a steady state: what was
asked so long ago is served by then.
"""

MOST_BEHIND = 64
"""Actions of crowds that are kept back at most."""

TURN_STATEMENTS = 2
"""Statements of a loop's turn beside those that move places: the counter's and the branch's, each a
cycle of issue.
"""

MARKS = 8
"""Iterations of a loop that are played at most before what they take is multiplied."""

KEPT = MOST_BEHIND + 4
"""Room for those of each."""

PLACES = 6
"""Places of a buffer: of the tile fetched, of two stores, each of both crowds."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Where a table keeps values that depend on the kinds of iterations of some loops.

    Value i stands, for kinds of iterations k, in row `base[i] + sum(strides[i, d] * k[d])`; it
    `varies` where any stride is not zero.
    """

    base: Ints
    strides: Ints
    varies: Flags


class LoopLevel(Protocol):
    """Loop d, outermost first, and the body inside d loops; the last record is a body only.

    There are `kinds` kinds of iterations: `front` and `back` of them are one iteration each at the
    ends, the `period` between come in turn. The kinds are `uniform` where nothing tells them apart.
    """

    before: int  # items of the body before the loop inside: first, end
    before_end: int
    after: int  # and after it
    after_end: int
    kinds: int
    front: int
    back: int
    period: int
    base: int  # row of its number of iterations, which `varies` with the loops around it
    varies: int
    uniform: int
    kind: int  # of its present iteration
    following: int  # kind of its next iteration, -1 at its end
    looped: int  # whether the body is inside a loop that runs more than once
    settled: int  # iterations after which it may be in its steady state
    meets: int  # whether all cores wait for each other in every iteration


class Item(Protocol):
    """A call or a transfer."""

    kind: int
    together: int  # whether the cores exchange data in it, so that all start with the last of them
    level: int
    buffer: int
    base: int  # row of its costs, which `varies` with the loops around it
    varies: int


class BufferSlots(Protocol):
    """A buffer of the candidate, and the slot of its latest store."""

    double: int
    slot: int


class Served(Protocol):
    """When a transfer of a crowd is done (`Crowd`), and its engine `free` of what was asked up to
    it; when the first of the crowd `asked` and the last, for so many cycles of `service` of them
    all. That of the first crowd says which `part` of the cores moves anything, 0 where none is
    under way, all of them among the part `until`.
    """

    first: float
    last: float
    start: float
    asked: float
    asked_last: float
    service: float
    free: float
    part: float
    until: float


class Crowd(Protocol):
    """The clocks of the core that is served first and of the last one, the others evenly from
    `start` on; its share of the cores, all of them in the share `until`; how far it is ahead of the
    clock of all before they part, by calls that take it less than others; the numbers of the next
    action kept back and of new ones.
    """

    first: float
    last: float
    start: float
    share: float
    until: float
    spared: float
    done: int
    known: int


class KeptAction(Protocol):
    """An action of a crowd: the cycles of a call, or the part of the cores that ask for a transfer;
    the row of its cost, and the place of what it waits for. The first core has called so many
    cycles `early`; where some asked before the others, it is `served` so many later than its clock.
    """

    kind: int
    amount: float
    row: int
    place: int
    early: float
    served: float


class Stride(Protocol):
    """Distance in rows from a value to that of the next kind of iteration of one loop."""

    rows: int


class Cost(Protocol):
    """The cycles of an item in one kind of iteration. Of a call `issue` are those of the first
    core, the `own` cycles those of cores that have any data, `apart` of others; of a transfer `own`
    is the share of the cores that have a part in it, all of them in the share `apart`.
    Where cores keep a window of operations in flight `issue` counts them, of a transfer `own` are
    the bytes, `first` and `last` are the cycles of the ends of several, `before` and `behind` those
    of issue of the statements around them, `paced` those between the issue of both at least.
    """

    service: float
    issue: float
    own: float
    apart: float
    first: float
    last: float
    before: float
    behind: float
    paced: float


class Count(Protocol):
    """Number of iterations of a loop in one kind of iteration of the loops around it."""

    iterations: float


class Mark(Protocol):
    """The clocks of both crowds, and when the engine is free, after an iteration of a loop; equal
    numbers of a `moment` mean that the cores are as far from each other, of `waits` that what is
    under way is as far ahead of them.
    """

    own: float
    apart: float
    free: float
    moment: float
    waits: float


class Clock(Protocol):
    """State of the playback: when the engine is free, and at the end when all are done."""

    loops: int
    buffers: int
    places: int  # of transfers
    cores: int
    columns: int  # in which the cores lie
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
    """Numbers that differ from tile to tile: iterations of the loops, costs of the items, where the
    kinds of a loop are uniform, the number of its contest; and which buffers are double in each
    combination of copies; `others` are the other cycles of `Cost`.
    """

    iterations: Floats
    service: Floats
    issue: Floats
    own: Floats
    uniform: Flags
    contest: Ints
    doubles: Flags
    others: Floats


def first_of(records: StateRecords) -> PipelineState:
    """Arguments of compiled code, the first record of each array; the arrays live on with them."""
    return PipelineState(*(array[0] for array in records))


def records(kind: type, count: int) -> npt.NDArray[Any]:
    """`count` records, all zero; at least one, so that there is a first."""
    return np.zeros(max(count, 1), _dtype(kind))


@cache
def _dtype(kind: type) -> np.dtype[Any]:
    """The fields of a record; one object for all arrays, which compiled code then knows at once."""
    formats = {"int": "i8", "float": "f8"}
    return np.dtype([(name, formats[of]) for name, of in kind.__annotations__.items()])
