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
    ends, the one between is all others. The kinds are `uniform` where nothing tells them apart.
    """

    before: int  # items of the body before the loop inside: first, end
    before_end: int
    after: int  # and after it
    after_end: int
    kinds: int
    front: int
    back: int
    base: int  # row of its number of iterations, which `varies` with the loops around it
    varies: int
    uniform: int
    kind: int  # of its present iteration
    following: int  # kind of its next iteration, -1 at its end
    looped: int  # whether the body is inside a loop that runs more than once
    due: float  # when its next run starts as if nothing of the last one were under way


class Item(Protocol):
    """A call or a transfer."""

    kind: int
    together: int  # whether the cores exchange data in it, so that all start with the last of them
    level: int
    buffer: int
    base: int  # row of its costs, which `varies` with the loops around it
    varies: int


class BufferTimes(Protocol):
    """A buffer of the candidate: when the tile fetched ahead arrives, and when its last two stores
    end; the same on the core that is served first, and on the last and the first of the others
    (`Clock`).
    """

    double: int
    arrived: float
    stored_before: float
    stored: float
    first_arrived: float
    first_stored_before: float
    first_stored: float
    others_arrived: float
    others_stored_before: float
    others_stored: float
    others_first_arrived: float
    others_first_stored_before: float
    others_first_stored: float


class Stride(Protocol):
    """Distance in rows from a value to that of the next kind of iteration of one loop."""

    rows: int


class Cost(Protocol):
    """The cycles of an item in one kind of iteration. Its `own` cycles are, of a call, those of the
    cores that have any data; of a transfer it is the share of the cores that have a part in it.
    Where cores keep a window of operations in flight `issue` counts them, `first` and `last` are
    the cycles of the ends of several, and `around` those of issue of the statements around them.
    """

    service: float
    issue: float
    own: float
    first: float
    last: float
    around: float


class Count(Protocol):
    """Number of iterations of a loop in one kind of iteration of the loops around it."""

    iterations: float


class Summary(Protocol):
    """A loop as one opaque step: `lead` is the engine's over the clock after its end, `delay`
    that of a run that follows at once, `ahead` how far the first core is at its end, `waits`,
    `others` and `others_first` how far the last core and the others are, which `joined` tells
    apart, `gain` by how much it ends earlier at most where the first core starts ahead.
    """

    elapsed: float
    busy: float
    headroom: float
    lead: float
    delay: float
    ahead: float
    gain: float
    joined: float
    waits: float
    others: float
    others_first: float


class Clock(Protocol):
    """State of the playback: the clocks of the core that is served last and of the one that is
    served first, when the engine is free, and how long it was busy. Cores that have no part in
    a transfer do not wait for it: these `others` have a clock of their own, and the rest are the
    share `joined`, until all meet again.
    """

    loops: int
    buffers: int
    combinations: int  # of kinds of iterations of all loops
    cores: int
    latency: float  # of a transfer
    issue: float  # of one request
    now: float
    first: float
    free: float
    busy: float
    compute: float  # cycles of all calls, and of the engine for all transfers, whatever overlaps
    transfers: float
    joined: float
    others: float
    others_first: float
    ended: float  # when the latest transfer ends, and its part of the others
    others_ended: float
    others_first_ended: float


class PipelineState(NamedTuple):
    """The first record of each array, as compiled code sees it."""

    clock: Clock
    levels: LoopLevel
    items: Item
    buffers: BufferTimes
    level_strides: Stride
    item_strides: Stride
    counts: Count
    costs: Cost
    summaries: Summary


class StateRecords(NamedTuple):
    """The arrays whose first records make a `PipelineState`, for one thread."""

    clock: npt.NDArray[Any]
    levels: npt.NDArray[Any]
    items: npt.NDArray[Any]
    buffers: npt.NDArray[Any]
    level_strides: npt.NDArray[Any]
    item_strides: npt.NDArray[Any]
    counts: npt.NDArray[Any]
    costs: npt.NDArray[Any]
    summaries: npt.NDArray[Any]


class Tables(NamedTuple):
    """Numbers that differ from tile to tile: iterations of the loops, costs of the items, where the
    kinds of a loop are uniform, the number of its contest; and which buffers are double in each
    combination of copies. Where cores keep a window of operations in flight `operations` are the
    other cycles of `Cost`.
    """

    iterations: Floats
    service: Floats
    issue: Floats
    own: Floats
    uniform: Flags
    contest: Ints
    doubles: Flags
    operations: Floats


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
