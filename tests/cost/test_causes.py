"""Causes of a modelled time: whole cycles that sum to it, the largest first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.cost.totals import _whole, model_causes
from tilewright.ir.parser import parse
from tilewright.machine import load_machine

THREADS = """\
def p():
    x: tensor("f32", "input", n=64)
    y: tensor("f32", "scratch", n=64)
    z: tensor("f32", "output", n=64)
    for i in range(4, threads=2):
        copy(y[at(i * 16, 16)]("e"), x[at(i * 16, 16)]("e"))
    barrier()
    for i in range(4, threads=2):
        copy(y[at(i * 16, 16)]("e"), z[at(i * 16, 16)]("e"))
    barrier()
    for i in range(4, threads=2):
        copy(z[at(i * 16, 16)]("e"), y[at(i * 16, 16)]("e"))
"""
COPY, CALL, NOTHING = ("copy", "x get"), ("primitive", "map"), ("barrier", "")


def test_what_nothing_explains_is_waiting_for_operands_in_place() -> None:
    causes = {COPY: 10.4, CALL: 20.6, NOTHING: 0.3}
    assert _whole(causes, 31) == [(CALL, 21), (COPY, 10)]
    assert _whole(causes, 46) == [(CALL, 21), (("caches", ""), 15), (COPY, 10)]
    assert _whole({}, 5) == [(("caches", ""), 5)]
    assert _whole({}, 0) == []


def test_what_rounding_adds_is_taken_from_the_largest_cause() -> None:
    assert _whole({COPY: 10.5001, CALL: 20.5001}, 31) == [(CALL, 20), (COPY, 11)]


@given(st.lists(st.floats(0, 1e6), max_size=5), st.floats(0, 1e6))
@examples(60)
def test_causes_sum_to_the_cycles_largest_first(parts: list[float], waiting: float) -> None:
    causes = {("primitive", f"p{n}"): cycles for n, cycles in enumerate(parts)}
    cycles = round(sum(parts) + waiting)
    found = _whole(causes, cycles)
    counts = [count for _, count in found]
    assert sum(counts) == cycles
    assert counts == sorted(counts, reverse=True)
    for (kind, subject), count in found:
        if kind == "primitive":
            assert abs(count - causes[kind, subject]) <= 0.5 + len(parts) / 2


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_meet_at_each_barrier_and_at_the_end(threads: int) -> None:
    """A thread that is alone waits for none, whatever else a program takes."""
    settings = {"threads.count": str(threads), "threads.meet_cycles": "100"}
    found = dict(model_causes(parse(THREADS), load_machine("host_avx2", settings), 1e6))
    assert found.pop(("barrier", ""), 0) == (300 if threads == 2 else 0)
    assert sum(found.values()) == 1_000_000 - (300 if threads == 2 else 0)
