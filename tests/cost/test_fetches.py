"""Cache lines of instructions that calls lack, against the cross-check's count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.cross_check.check import missing_lines
from support.examples import examples
from tilewright.cost.fetches import CodeLines, Fetches
from tilewright.isa.table import InstructionCache


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
    fetches = Fetches(CodeLines(own, tuple(tuple(one.tolist()) for one in lines), calls))
    order, content, found = [number % len(routines) for number in drawn], 0, []
    for number in order:
        cycles, content = fetches.cycles(content, number, ())
        found.append(cycles)
    cores, numbers = np.zeros(len(order), np.int64), np.array(order, np.int64)
    assert found == (3 * missing_lines(cores, numbers, lines, own)).tolist()


def test_a_call_without_a_routine_fetches_nothing() -> None:
    own = InstructionCache(capacity_bytes=64, line_bytes=8, miss_cycles=1)
    assert Fetches(CodeLines(own, (), {})).cycles(0, 5, (1, 2)) == (0, 0)
