"""Cache lines of instructions that a core fetches again because its routines evict each other.

In: the lines that each call executes, and the calls in their order. Out: the cycles
of fetching those that the core's instruction cache lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.isa.table import InstructionCache


@dataclass(frozen=True, eq=False)
class CodeLines:
    """Routines that do not fit a cache together: `lines` that calls execute, ascending, with the
    share of the calls that execute each, and which of them by the number of a call's statement and
    its extents.
    """

    cache: InstructionCache
    lines: tuple[tuple[int, ...], ...]
    shares: tuple[tuple[float, ...], ...]
    calls: Mapping[tuple[int, tuple[int, ...]], int]


class Fetches:
    """Lines that calls lack, from one content of the cache to the next; equal contents have one
    number, 0 is the empty cache.
    """

    def __init__(self, code: CodeLines) -> None:
        self._code = code
        empty = np.full((code.cache.sets, code.cache.ways), -1)
        self._contents, self._numbers = [empty], {empty.tobytes(): 0}
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def cycles(self, content: int, call: int, dims: tuple[int, ...]) -> tuple[int, int]:
        """Cycles of fetching what a call lacks, and the content after it; 0 without a routine."""
        routine = self._code.calls.get((call, dims))
        if routine is None:
            return 0, content
        key = content, routine
        if key not in self._known:
            self._known[key] = self._called(*key)
        return self._known[key]

    def _called(self, content: int, routine: int) -> tuple[int, int]:
        held, cache = self._contents[content].copy(), self._code.cache
        every, missing = np.array(self._code.lines[routine], np.int64), 0.0
        rounds = np.flatnonzero(np.diff(every // cache.sets)) + 1  # no two lines of one share a set
        shares = np.split(np.array(self._code.shares[routine]), rounds)
        for lines, share in zip(np.split(every, rounds), shares, strict=True):
            own = held[lines % cache.sets]
            found = own == lines[:, None]
            missing += float(share[~found.any(axis=1)].sum())
            place = np.where(found.any(axis=1), found.argmax(axis=1), cache.ways - 1)[:, None]
            behind = np.arange(1, cache.ways) <= place
            own[:, 1:] = np.where(behind, own[:, :-1], own[:, 1:])
            own[:, 0] = lines
            held[lines % cache.sets] = own
        after = self._numbers.setdefault(held.tobytes(), len(self._contents))
        if after == len(self._contents):
            self._contents.append(held)
        return round(missing * cache.miss_cycles), after
