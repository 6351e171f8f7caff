"""Kinds of iterations in the composition of item costs, against a count of all iterations."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.uncompiled import pipeline_state, uncompiled
from tilewright.cost import pipeline_rows

PIECES = uncompiled(pipeline_rows)
LOOP = st.tuples(*[st.integers(0, 2)] * 2, st.integers(1, 3), st.integers(1, 9), st.booleans())
"""Iterations of their own at both ends, the period of those between, how many there are, whether
all are alike.
"""


def nest(loops: list[tuple[int, int, int, int, bool]]) -> Any:
    s = pipeline_state(levels=len(loops) + 1, counts=len(loops))
    s.clock.loops = len(loops)
    for d, (front, back, period, count, uniform) in enumerate(loops):
        level = s.levels[d]
        level.front, level.back, level.period, level.base = front, back, period, d
        level.kinds, level.uniform = front + period + back, uniform
        s.counts[d].iterations = count
    return s


def kinds_of(front: int, back: int, period: int, count: int, uniform: bool) -> list[int]:
    """The kind of each iteration; of too few for both ends the first ones are as in front."""
    behind = max(count - back, front)
    return [
        0 if uniform
        else i if i < front
        else front + (i - front) % period if i < behind
        else front + period + back - count + i
        for i in range(count)
    ]  # fmt: skip


@given(LOOP)
def test_each_kind_comes_as_often_as_iterations_have_it_and_in_their_order(loop) -> None:
    s, (front, back, period, _, uniform) = nest([loop]), loop
    found, kinds = kinds_of(*loop), range(front + period + back)
    times = Counter(found)
    assert [PIECES.times_of(s, 0, kind) for kind in kinds] == [times[kind] for kind in kinds]
    for kind in kinds:
        after = [other for other in sorted(times) if other > kind]
        assert PIECES.kind_after(s, 0, kind) == (after[0] if after else -1)
    for kind, following in pairwise(found):
        s.levels[0].kind = kind
        repeats = not uniform and front <= kind < front + period
        turning = repeats and front <= following < front + period
        assert PIECES.period_of(s, 0) == (period if repeats else 1)
        if turning:
            assert PIECES.kind_in_turn(s, 0) == following
        elif following != kind:
            assert PIECES.kind_behind(s, 0) == following
