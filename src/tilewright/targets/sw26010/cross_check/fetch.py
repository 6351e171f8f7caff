"""Lines of the instruction cache that calls miss, over the whole program of a core.

In: the calls of all cores in order, the lines that each executes, the cache of the instruction
table. Out: missing lines of each call. A core's cache is empty at the launch; routines lie one
behind the other, as they are linked. The compiled C around the calls is left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.table import InstructionCache
from tilewright.targets.sw26010.cross_check.compiled import missing


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
    return np.asarray(missing(cores, calls, flat, starts, ends, cache.sets, cache.ways))
