"""Plans as if all routines lay in the instruction cache together."""

from __future__ import annotations

import pytest


@pytest.fixture
def routines_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning that fuses whatever it may, also where routines evict each other: so that what comes
    out is tested, not the choice.
    """
    monkeypatch.setattr("tilewright.tune.refills.Refills.added", lambda self, own, plain=None: own)
