"""Instruction cache lines that a core refetches because its routines evict each other.

In: the lines that each call executes, and the calls in program order. Out: the cycles that
instruction cache misses cost each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.isa.table import InstructionCache

_Round: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[Any]]
"""Lines of distinct sets: their sets, the lines as a column, the shares of the calls."""


@dataclass(frozen=True, eq=False)
class CodeLines:
    """Routines that together exceed the instruction cache. Per routine: its `lines`, ascending, and
    the share of calls that execute each line. `calls` maps (number of a call's statement, extents)
    to the routine.
    """

    cache: InstructionCache
    lines: tuple[tuple[int, ...], ...]
    shares: tuple[tuple[float, ...], ...]
    calls: Mapping[tuple[int, tuple[int, ...]], int]


class Fetches:
    """Misses of calls, from one content of the cache to the next. Contents are numbered, equal ones
    alike; 0 is the empty cache.
    """

    def __init__(self, code: CodeLines) -> None:
        self._code = code
        empty = np.full((code.cache.sets, code.cache.ways), -1)
        self._contents, self._numbers = [empty], {empty.tobytes(): 0}
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        every = zip(code.lines, code.shares, strict=True)
        self._rounds = [_rounds(lines, shares, code.cache.sets) for lines, shares in every]

    def cycles(self, content: int, call: int, dims: tuple[int, ...]) -> tuple[int, int]:
        """Cycles of a call's misses, and the content after it; 0 for a call without a routine."""
        routine = self._code.calls.get((call, dims))
        if routine is None:
            return 0, content
        key = content, routine
        if key not in self._known:
            self._known[key] = self._called(*key)
        return self._known[key]

    def _called(self, content: int, routine: int) -> tuple[int, int]:
        # each row of `held` lists a set's lines, the most recently used first
        held, ways, missing = self._contents[content].copy(), self._code.cache.ways, 0.0
        for sets, lines, shares in self._rounds[routine]:
            own = held[sets]
            same = own == lines
            found = same.any(axis=1)
            missing += float(shares[~found].sum())
            if ways > 1:
                place = np.where(found, same.argmax(axis=1), ways - 1)[:, None]
                behind = np.arange(1, ways) <= place
                own[:, 1:] = np.where(behind, own[:, :-1], own[:, 1:])
            own[:, :1] = lines
            held[sets] = own
        after = self._numbers.setdefault(held.tobytes(), len(self._contents))
        if after == len(self._contents):
            self._contents.append(held)
        return round(missing * self._code.cache.miss_cycles), after


def _rounds(lines: Sequence[int], shares: Sequence[float], sets: int) -> list[_Round]:
    """Ascending `lines` in rounds; within a round no two lines share a set."""
    every, of_calls = np.array(lines, np.int64), np.array(shares)
    ends = np.flatnonzero(np.diff(every // sets)) + 1
    rounds = zip(np.split(every, ends), np.split(of_calls, ends), strict=True)
    return [(own % sets, own[:, None], share) for own, share in rounds]
