"""Crowds of cores that part: clocks and requests against those of each core."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.uncompiled import pipeline_state, uncompiled
from tilewright.cost import pipeline_crowds
from tilewright.cost.pipeline_crowds import _ASK
from tilewright.cost.pipeline_types import APART, KEPT, OWN

PIECES = uncompiled(pipeline_crowds)
SIDE = 8


def crowds(first: float, last: float, start: float) -> Any:
    """Crowds of a mesh of cores that follow each other, nothing under way."""
    s = pipeline_state(crowds=2, served=2, actions=2 * KEPT)
    s.clock.cores, s.clock.columns, s.clock.places = SIDE * SIDE, SIDE, 2
    for own in s.crowds:
        own.first, own.last, own.start = first, last, start
    return s


@given(st.integers(1, SIDE), st.integers(1, SIDE))
def test_crowds_part_at_the_clocks_of_the_cores_at_their_ends(rows: int, columns: int) -> None:
    """The cores have followed each other row by row, and those in the first columns of the first
    rows go on. Where these are whole rows those apart begin with the row behind.
    """
    cores = [(row, column) for row in range(SIDE) for column in range(SIDE)]
    own = [n for n, (row, column) in enumerate(cores, 1) if row < rows and column < columns]
    s = crowds(100.0, 100.0 + len(cores), 100.0)
    PIECES._let_go(s, len(own) / len(cores), rows / SIDE)
    assert (s.crowds[OWN].share, s.crowds[APART].share) == (
        len(own) / len(cores), 1 - len(own) / len(cores)
    )  # fmt: skip
    assert (s.crowds[OWN].first, s.crowds[OWN].last) == (100.0, pytest.approx(100.0 + own[-1]))
    first_apart = 100.0 + (own[-1] if columns == SIDE else 0)
    assert (s.crowds[APART].first, s.crowds[APART].last) == (first_apart, 100.0 + len(cores))


@given(st.integers(0, 64), st.integers(0, 5), st.integers(1, 4))
def test_cores_that_are_ahead_ask_before_others_do(cycle: int, ahead: int, service: int) -> None:
    """Of cores that follow each other a cycle apart from the start on, so many have asked, each
    for its part of the service.
    """
    for shift in (0.0, 1000.0):
        s = crowds(shift - ahead, shift + 64.0, shift)
        s.crowds[OWN].known, s.clock.free = 1, shift
        s.costs[0].service, s.costs[0].own = 64.0 * service, 1.0
        s.actions[OWN * KEPT].kind, s.actions[OWN * KEPT].amount = _ASK, 1.0
        PIECES._serve_earlier(s, OWN, shift + cycle)
        asked = cycle if cycle < 64 else 0
        assert s.actions[OWN * KEPT].amount == pytest.approx(1.0 - asked / 64)
        assert s.clock.free == pytest.approx(shift + service * asked)
