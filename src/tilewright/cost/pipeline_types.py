"""The arrays that the composition of item costs works on, and how its functions are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])

CALL, GET, PUT = 0, 1, 2


def compiled(function: F) -> F:
    """Compile without Numba's reference counts, an option that its type information lacks.

    They cost an atomic operation for every array of every call, three quarters of the time of small
    functions. Such a function allocates nothing.
    """
    options: dict[str, Any] = {"cache": True, "_nrt": False}
    result: F = numba.njit(**options)(function)
    return result


class Chain(NamedTuple):
    """A chain of loops as arrays; level d is the body inside d loops.

    `before[d]`, `after[d]`: (first, end) item numbers at level d. Item i: `kind`, `buffer`, and the
    row of its cost for kinds of iterations k: `base[i] + sum(strides[i, d] * k[d])`. `kinds[d]`: 1
    (all alike), 2 (last differs) or 3 (first and last differ). `counts[d, j]`: iterations of loop d
    for tile candidate j.
    """

    before: Ints
    after: Ints
    kind: Ints
    buffer: Ints
    base: Ints
    strides: Ints
    varies: npt.NDArray[np.bool_]
    kinds: Ints
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

    `time` is [core clock, engine free, engine busy, compute]; per buffer, when the tile fetched
    ahead arrives and when the last two stores end; the kind of iteration of every loop; which
    levels are inside loops; when the stores that each loop left behind end.
    """

    time: Any
    arrived: Any
    stored: Any
    kinds: Any
    looped: Any
    left: Any
