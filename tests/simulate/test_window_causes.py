"""Why units of long operations are idle: every cycle by itself, and all of them together."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.simulate.window.run import WaitCause, WindowRun

CAUSES = tuple(WaitCause)
SPANS = st.lists(st.integers(0, 5), max_size=24)
OPERATIONS = st.lists(st.tuples(*[st.integers(0, 6)] * 2, st.integers(1, 9)), max_size=6)


def run_of(operations: list[tuple[int, int, int]], spans: list[int], rest: int) -> WindowRun:
    """Operations of one unit, (cycles to the issue behind the last, to the start, to the end), and
    stalls in every second of some spans of cycles.
    """
    events, issue, free = list[tuple[int, ...]](), 0, 0
    for after, waits, cycles in operations:
        issue += after
        start = max(issue, free) + waits
        free = start + cycles
        events.append((issue, start, free, 0, len(events)))
    ends = np.cumsum([0, *spans]).tolist()
    stalls = [(a, b, a % 3, 0) for a, b in zip(ends[1::2], ends[2::2], strict=False) if a < b]
    table = np.array(events, np.int64).reshape(-1, 5), np.array(stalls, np.int64).reshape(-1, 4)
    busy = {"MATRIX": sum(cycles for *_, cycles in operations)}
    return WindowRun(free + rest, 0, 0, busy, *table, ("MATRIX",), (), {})


@examples(200)
@given(OPERATIONS, SPANS, st.integers(0, 3))
def test_an_idle_cycle_has_the_cause_of_what_holds_its_operation_up(
    operations: list[tuple[int, int, int]], spans: list[int], rest: int
) -> None:
    run = run_of(operations, spans, rest)
    causes = Counter[str]()
    for cycle in range(run.cycles):
        if any(event.start <= cycle < event.end for event in run.events):
            continue
        following = next((event for event in run.events if event.start > cycle), None)
        if following is None:
            causes[WaitCause.DRAIN] += 1
        elif following.issue <= cycle:
            causes[WaitCause.SPANS] += 1
        else:
            held = (stall.cause for stall in run.stalled if stall.start <= cycle < stall.stop)
            causes[next(held, WaitCause.ISSUING)] += 1
    assert run.idle("MATRIX") == causes
    assert sum(causes.values()) + run.unit_busy["MATRIX"] == run.cycles


@examples(100)
@given(OPERATIONS, SPANS)
def test_stalls_are_summed_by_cause_in_the_order_in_which_these_came_up(
    operations: list[tuple[int, int, int]], spans: list[int]
) -> None:
    run, found = run_of(operations, spans, 0), Counter[str]()
    for stall in run.stalled:
        found[stall.cause] += stall.stop - stall.start
    assert list(run.stalls.items()) == list(found.items())
