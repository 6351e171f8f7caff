"""Candidates whose routines evict each other: which ones are searched for apart."""

from types import SimpleNamespace

import pytest

from tilewright.tune import refills


@pytest.mark.parametrize(("refill_cycles", "searched"), [(0, 0), (9, 0), (11, 1), (400, 1)])
def test_steadier_candidates_are_searched_for_where_refills_are_a_hundredth(
    monkeypatch, refill_cycles, searched
):
    """The best of two takes 1,000 cycles with its refills, of which they are the part given."""
    asked = []
    best, other = (SimpleNamespace(op="op", seed="seed", shared=(), refill_cycles=refill_cycles,
                                   cycles=cycles) for cycles in (1000, 2000))  # fmt: skip
    steady = SimpleNamespace(op="op", seed="seed", shared=(), refill_cycles=0, cycles=999)

    def steadier(slow, machine):
        asked.extend(slow)
        return [(steady,)] * len(slow)

    monkeypatch.setattr(refills, "with_refills", lambda candidate, machine: candidate)
    monkeypatch.setattr(refills, "_steadier", steadier)
    (found,) = refills.steadied([[other, best]], None, lambda own: own, lambda _, own: own)
    assert asked == [best] * searched
    assert list(found) == [steady] * searched + [best, other]


@pytest.mark.parametrize("fetch_cycles", [0, 1])
def test_routines_evict_each_other_where_filling_the_cache_takes_time(monkeypatch, fetch_cycles):
    monkeypatch.setattr(refills, "_fetch_cycles", lambda machine: fetch_cycles)
    assert refills._evicts(None) is (fetch_cycles > 0)
