"""The arrays that the composition of item costs works on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CALL, GET, PUT, COPY = 0, 1, 2, 3
"""Kinds of items; a copy is a transfer that the core itself makes."""


class Chain(NamedTuple):
    """A chain of loops as arrays; level d is the body inside d loops.

    `before[d]`, `after[d]`: (first, end) item numbers at level d. Item i: `kind`, `level`, `buffer`
    and the row of its cost for kinds of iterations k: `base[i] + sum(strides[i, d] * k[d])`.
    `kinds[d]`: how many there are, `edges[d]`: how many of them are one iteration at the front and
    at the back, the one between is all others. `counts` has the iterations of each tile candidate
    in rows that are found alike.
    """

    before: Ints
    after: Ints
    kind: Ints
    level: Ints
    buffer: Ints
    base: Ints
    strides: Ints
    varies: npt.NDArray[np.bool_]
    kinds: Ints
    edges: Ints
    count_base: Ints
    count_strides: Ints
    count_varies: npt.NDArray[np.bool_]
    counts: Floats
    uniform: npt.NDArray[np.bool_]
    service: Floats
    issue: Floats


class Case(NamedTuple):
    """One candidate: its double buffers, its tile column, and the machine's transfer latency."""

    chain: Chain
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
