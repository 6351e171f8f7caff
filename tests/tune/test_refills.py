"""Candidates whose routines evict each other: which ones are searched for apart."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from tilewright.tune import refills


class Plain:
    """Adds nothing to candidates."""

    def added(self, candidate):
        return candidate

    expected = added


@dataclass(frozen=True, eq=False)
class Own:
    """A candidate of an algorithm, whose products take as long as they say."""

    estimate: float
    products: tuple[float, float]
    refill_cycles: float = 0.0

    @property
    def cycles(self):
        return self.estimate + self.refill_cycles


@pytest.fixture
def simulated(monkeypatch):
    """The estimates of the candidates that are simulated: a quarter more for each change."""
    found = []

    def with_refills(candidate, machine):
        found.append(candidate.estimate)
        return replace(candidate, refill_cycles=candidate.products[1] * candidate.estimate / 4)

    monkeypatch.setattr(refills, "with_refills", with_refills)
    monkeypatch.setattr(refills, "_evicts", lambda machine: True)
    monkeypatch.setattr(refills, "_computing", lambda candidate: candidate.products[0])
    monkeypatch.setattr(refills, "_changes", lambda candidate, machine: candidate.products[1])
    return found


def best(*every):
    own = refills.Refills(None)
    return [
        (c.estimate, c.refill_cycles) for c in refills.best_first(every, own.expected, own.added)
    ]


def test_of_candidates_that_call_routines_alike_the_first_is_simulated(simulated):
    """The others are expected to take as much longer, and may not be the best then."""
    found = best(Own(100, (90, 1)), Own(101, (90, 1)), Own(110, (80, 0)), Own(104, (90, 1)))
    assert simulated == [100, 110]
    assert found == [(110, 0), (100, 25), (101, 25), (104, 25)]


def test_candidates_are_simulated_whose_products_change_less_often_or_take_another_time(simulated):
    found = best(Own(100, (90, 1)), Own(101, (90, 0)), Own(100.5, (91, 1)))
    assert simulated == [100, 100.5, 101]
    assert found[0] == (101, 0)


def test_what_may_be_the_best_as_expected_is_simulated(simulated):
    """Here of a candidate that calls routines like one with fewer refills than it has itself."""
    one, other = Own(100, (90, 1)), Own(100, (90, 1), refill_cycles=20)
    assert best(one, other) == [(100, 25), (100, 25)]
    assert simulated == [100, 100]


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

    monkeypatch.setattr(refills, "Refills", lambda machine: Plain())
    monkeypatch.setattr(refills, "_steadier", steadier)
    (found,) = refills.steadied([[other, best]], None, lambda own: own, lambda _, own: own)
    assert asked == [best] * searched
    assert list(found) == [steady] * searched + [best, other]


@pytest.mark.parametrize("fetch_cycles", [0, 1])
def test_routines_evict_each_other_where_filling_the_cache_takes_time(monkeypatch, fetch_cycles):
    monkeypatch.setattr(refills, "_fetch_cycles", lambda machine: fetch_cycles)
    assert refills._evicts(None) is (fetch_cycles > 0)
