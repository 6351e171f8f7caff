"""Division of loops among threads: the rule against every division, tried."""

from __future__ import annotations

from itertools import combinations
from math import ceil, prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilewright.ir.threads import EFFICIENCY, parts_of

loops = st.lists(st.tuples(st.integers(1, 70), st.booleans()), min_size=1, max_size=4)


def longest_share(counts: list[int], parts: list[int]) -> float:
    """The share of all iterations that the thread with most to do executes."""
    shares = (ceil(n / p) / n for n, p in zip(counts, parts, strict=True))
    return float(prod(shares))


def divisions(counts: list[int], own: list[int], threads: int) -> list[list[int]]:
    """No loop divided, one among all threads, or two whose parts are all threads."""
    alone = [{d: threads} for d in own]
    two = [
        {outer: parts, inner: threads // parts}
        for outer, inner in combinations(own, 2)
        for parts in range(2, threads)
        if threads % parts == 0
    ]
    ways: list[dict[int, int]] = [{}, *alone, *two]
    return [[way.get(d, 1) for d in range(len(counts))] for way in ways]


@given(loops, st.integers(0, 2), st.sampled_from([1, 2, 3, 8, 12, 64]))
def test_the_outermost_loop_for_all_threads_or_the_shortest_share(
    given_loops: list[tuple[int, bool]], together: int, threads: int
) -> None:
    counts, divisible = map(list, zip(*given_loops, strict=True))
    found = [int(parts) for parts in parts_of(counts, divisible, together, threads)]
    able = [d for d, possible in enumerate(divisible) if possible]
    busy = [d for d in able if counts[d] >= EFFICIENCY * threads * ceil(counts[d] / threads)]
    if busy:
        assert found == [threads if d == busy[0] else 1 for d in range(len(counts))]
    else:
        every = divisions(counts, [d for d in able if d >= together], threads)
        assert found in every
        least = min(longest_share(counts, parts) for parts in every)
        np.testing.assert_allclose(longest_share(counts, found), least, rtol=1e-12)
