"""The arrays that the composition of item costs works on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

CALL, GET, PUT, COPY = 0, 1, 2, 3
"""Kinds of items; a copy is a transfer that the core itself makes."""


class Rows(NamedTuple):
    """Where a table keeps values that depend on the kinds of iterations of some loops.

    Value i stands, for kinds of iterations k, in row `base[i] + sum(strides[i, d] * k[d])`; it
    `varies` where any stride is not zero.
    """

    base: Ints
    strides: Ints
    varies: Flags


class Items(NamedTuple):
    """The calls and transfers of a nest.

    Of each item its `kind`, the `level` where it stands and the number of its `buffer`; `service`
    and `issue` are the cycles of every candidate, in `rows`.
    """

    kind: Ints
    level: Ints
    buffer: Ints
    rows: Rows
    service: Floats
    issue: Floats


class Loops(NamedTuple):
    """The loops of a nest, outermost first.

    `kinds[d]`: how many kinds of iterations there are, `edges[d]`: how many of them are one
    iteration at the front and at the back, the one between is all others. `counts` has the
    iterations of every candidate in `rows`; the kinds are `uniform` where nothing tells them apart.
    """

    kinds: Ints
    edges: Ints
    rows: Rows
    counts: Floats
    uniform: Flags


class Nest(NamedTuple):
    """A chain of loops as arrays; level d is the body inside d loops.

    `before[d]`, `after[d]`: (first, end) numbers of the items at level d before and after the loop
    inside.
    """

    before: Ints
    after: Ints
    items: Items
    loops: Loops


class Candidate(NamedTuple):
    """One candidate: its double buffers, its tile column, and the machine's transfer latency."""

    nest: Nest
    double: Any
    tile: int
    latency: float


class Clock(NamedTuple):
    """What plays.

    `time` is [core clock, engine free, engine busy]; per buffer, when the tile fetched
    ahead arrives and when the last two stores end; the kind of iteration of every loop, and that of
    its next one, negative at its end; which levels are inside loops; when the stores that each loop
    left behind end.
    """

    time: Any
    arrived: Any
    stored: Any
    kinds: Any
    following: Any
    looped: Any
    left: Any
