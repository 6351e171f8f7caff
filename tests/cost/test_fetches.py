"""Cache lines of instructions that calls lack, against the cross-check's count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.cross_check.check import missing_lines
from support.examples import examples
from tilewright.cost.fetches import CodeLines, Fetches
from tilewright.isa.table import InstructionCache

Call: TypeAlias = tuple[int, tuple[int, ...]]


def code(
    cache: InstructionCache, lines: Sequence[NDArray[np.int64]], calls: dict[Call, int]
) -> CodeLines:
    """Routines all of whose calls execute the same lines."""
    every = tuple(tuple(one.tolist()) for one in lines)
    return CodeLines(cache, every, tuple((1.0,) * len(one) for one in every), calls)


@given(
    st.lists(st.sets(st.integers(0, 24), min_size=1), min_size=1, max_size=3),
    st.lists(st.integers(0, 2), max_size=12),
    st.sampled_from([1, 2, 4]),
)
@examples(150)
def test_lines_are_missing_as_the_cross_check_counts_them(
    routines: list[set[int]], drawn: list[int], ways: int
) -> None:
    """Routines, of which not every line is executed, share lines and follow each other."""
    own = InstructionCache(capacity_bytes=64, line_bytes=8, miss_cycles=3, ways=ways)
    calls = {(number, ()): number for number in range(len(routines))}
    lines = [np.array(sorted(routine)) for routine in routines]
    fetches = Fetches(code(own, lines, calls))
    order, content, found = [number % len(routines) for number in drawn], 0, []
    for number in order:
        cycles, content = fetches.cycles(content, number, ())
        found.append(cycles)
    cores, numbers = np.zeros(len(order), np.int64), np.array(order, np.int64)
    assert found == (3 * missing_lines(cores, numbers, lines, own)).tolist()


def test_a_call_without_a_routine_fetches_nothing() -> None:
    own = InstructionCache(capacity_bytes=64, line_bytes=8, miss_cycles=1)
    assert Fetches(code(own, [], {})).cycles(0, 5, (1, 2)) == (0, 0)


def test_a_line_that_a_share_of_the_calls_executes_is_fetched_in_that_share() -> None:
    """Two routines evict each other; every second call of the first goes on to its second line."""
    own = InstructionCache(capacity_bytes=16, line_bytes=8, miss_cycles=30)
    calls = {(0, ()): 0, (1, ()): 1}
    fetches = Fetches(CodeLines(own, ((0, 1), (2, 3)), ((1.0, 0.5), (1.0, 1.0)), calls))
    cycles, content = fetches.cycles(0, 0, ())
    assert cycles == 45
    assert fetches.cycles(content, 0, ()) == (0, content)
    cycles, content = fetches.cycles(content, 1, ())
    assert cycles == 60
    assert fetches.cycles(content, 0, ())[0] == 45
