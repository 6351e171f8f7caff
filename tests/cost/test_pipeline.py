"""Pieces of the composition of item costs, each run alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.uncompiled import pipeline_state, uncompiled
from tilewright.cost import pipeline
from tilewright.cost.pipeline_types import APART, MARKS, OWN, PUT

PIECES = uncompiled(pipeline)
TIMES = st.integers(0, 50).map(float)


@given(st.lists(TIMES, max_size=8), st.integers(1, 4))
def test_the_best_of_a_contest_are_in_order(cycles: list[float], keep: int) -> None:
    best = np.full((2, keep), np.inf)
    for now in cycles:
        PIECES.enter(SimpleNamespace(clock=SimpleNamespace(now=now)), best, 1)
    assert best[1].tolist() == [*sorted(cycles), *[np.inf] * keep][:keep]
    assert np.isinf(best[0]).all()


CLOCKS = ("first", "last", "start")


def under_way(times: list[float], share: float, shift: float) -> Any:
    """The state of two crowds and two transfers of each, all of it so much later."""
    s = pipeline_state(crowds=2, served=4)
    s.clock.places, s.clock.free = 4, 3.0 + shift
    given = iter(times)
    for record in (s.crowds[OWN], s.crowds[APART], *(s.served[n] for n in range(4))):
        for name in CLOCKS:
            setattr(record, name, next(given) + shift)
    s.crowds[OWN].share, s.crowds[APART].share = share, 1.0 - share
    for crowd in (OWN, APART):
        s.crowds[crowd].known, s.crowds[crowd].done = 5 + crowd, 3
    return s


def marked(s: Any) -> Any:
    PIECES._set_mark(s, s.marks[0])
    return s.marks[0]


@given(st.lists(TIMES, min_size=18, max_size=18), st.sampled_from([0.25, 1.0]), st.data())
def test_a_mark_says_how_far_all_is_apart_and_not_when(times, share, data: st.DataObject) -> None:
    """Crowds of all cores have no others apart, whose clocks then mean nothing."""
    found, later = (marked(under_way(times, share, shift)) for shift in (0.0, 1000.0))
    assert [later.own, later.free] == [found.own + 1000, found.free + 1000]
    assert later.moment == pytest.approx(found.moment, abs=1e-6)
    assert later.waits == pytest.approx(found.waits, abs=1e-6)
    crowd = data.draw(st.sampled_from([OWN, APART]))
    name = data.draw(st.sampled_from([*CLOCKS[:2], "known"] if crowd else CLOCKS))
    other = under_way(times, share, 0.0)
    setattr(other.crowds[crowd], name, getattr(other.crowds[crowd], name) + 7)
    same = marked(other).moment == pytest.approx(found.moment, abs=1e-6)
    assert same == (share == 1.0 and crowd == APART)


@pytest.mark.parametrize(
    ("engine", "waits", "moment", "alike", "even"),
    [
        (0.0, 0.0, 0.0, True, True),
        (0.0, 0.0, 1.0, False, False),
        (0.0, 2.0, 0.0, False, False),
        (0.0, -2.0, 0.0, False, False),
        (2.0, 0.0, 0.0, False, False),
        (-2.0, 0.0, 0.0, False, True),
        (-2.0, -2.0, 0.0, False, True),
        (-2.0, 2.0, 0.0, False, False),
        (-2.0, 0.0, 1.0, False, False),
    ],
)
def test_what_is_under_way_may_become_less_in_even_iterations(engine, waits, moment, alike, even):
    """The engine may fall behind the cores, and waits may become shorter, where the iterations
    take as long as each other.
    """
    before, now = (SimpleNamespace(own=x, free=x + 5, waits=3.0, moment=4.0) for x in (10, 30))
    now.free, now.waits, now.moment = now.free + engine, now.waits + waits, now.moment + moment
    assert [PIECES._alike(now, before, iterations) for iterations in (False, True)] == [alike, even]


@pytest.mark.parametrize(
    ("stored_at", "iterations", "settled"),
    [
        (2, (4.0, 1.0), [2, 2]),
        (2, (4.0, 4.0), [1, 2]),
        (1, (4.0, 4.0), [2, 1]),
        (0, (4.0, 4.0), [1, 1]),
        (1, (1.0, 4.0), [2, 1]),
    ],
)
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("span", ["before", "after"])
def test_a_loop_is_settled_when_both_slots_have_been_stored_from(
    stored_at, iterations, settled, double, span
) -> None:
    """Of the loops of one iteration inside a loop the bodies are its own."""
    s = pipeline_state(levels=3, marks=3 * MARKS, counts=2, crowds=2, served=6)
    s.clock.loops, s.clock.buffers, s.clock.cores, s.clock.columns = 2, 1, 1, 1
    s.items[0].kind, s.items[0].level = PUT, stored_at
    s.buffers[0].double = double
    for d, count in enumerate(iterations):
        s.counts[d].iterations = count
        s.levels[d].base, s.levels[d].kinds, s.levels[d].period = d, 1, 1
    setattr(s.levels[stored_at], f"{span}_end", 1)
    PIECES._play_candidate(s)
    assert s.clock.now == 0.0  # nothing costs anything
    assert [s.levels[d].settled for d in range(2)] == (settled if double else [1, 1])
