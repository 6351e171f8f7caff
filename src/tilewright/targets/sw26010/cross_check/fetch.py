"""Lines of the instruction cache that calls miss, over the whole program of a core.

In: the calls of all cores in order, the lines that each executes, the cache of the instruction
table. Out: missing lines of each call. A core's cache is empty at the launch; routines lie one
behind the other, as they are linked. The compiled C around the calls is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.common.compiled import entry_point
from tilewright.isa.table import InstructionCache


def missing_lines(
    cores: NDArray[np.int64],
    calls: NDArray[np.int64],
    lines: list[NDArray[np.int64]],
    cache: InstructionCache,
) -> NDArray[np.int64]:
    """Missing lines of each call; `calls` are numbers of `lines`, `cores` ascend."""
    ends = np.cumsum([len(own) for own in lines])
    flat = np.concatenate(lines) if lines else np.zeros(0, np.int64)
    starts = ends - [len(own) for own in lines]
    return np.asarray(_missing(cores, calls, flat, starts, ends, cache.sets, cache.ways))


@entry_point()
def _missing(
    cores: Any, calls: Any, lines: Any, starts: Any, ends: Any, sets: int, ways: int
) -> Any:
    held = np.full((sets, ways), -1, np.int64)
    found = np.zeros(len(calls), np.int64)
    for i in range(len(calls)):
        if i and cores[i] != cores[i - 1]:
            held[:] = -1
        for at in range(starts[calls[i]], ends[calls[i]]):
            own, place = held[lines[at] % sets], 0
            while place < ways - 1 and own[place] != lines[at]:
                place += 1
            found[i] += own[place] != lines[at]
            for behind in range(place, 0, -1):
                own[behind] = own[behind - 1]
            own[0] = lines[at]
    return found
