"""How much of a test every run tries: some of its examples and cases, more in `make fuzz`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

STATED = 100
"""Examples of a property that states no number; the profiles of Hypothesis scale from it."""

QUICK = 30
"""Per cent of the stated examples that a run of the suite draws: they are the same in each run."""

ROUND = 8
"""How many times the stated examples a round of `make fuzz` draws, other ones in each round."""

FIRST_FAILURE: dict[str, Any] = {}
"""Settings of every profile where only whether a property holds matters, not the least example."""

FEW = 4
"""Cases of a test that no run leaves out."""


def register_profiles() -> None:
    """`quick`, the same examples in every run, and `fuzz`, new ones and those that once failed."""
    settings.register_profile(
        "quick",
        max_examples=QUICK,
        deadline=None,
        derandomize=True,
        # A fresh temporary folder per example is not needed: each writes its own file over. How
        # busy the computer is decides no test.
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
        **FIRST_FAILURE,
    )
    settings.register_profile(
        "fuzz", settings.get_profile("quick"), max_examples=ROUND * STATED, derandomize=False
    )
    settings.load_profile("quick")


def examples(count: int) -> settings:
    """`count` examples, in proportion with the profile."""
    return settings(max_examples=max(1, count * settings.default.max_examples // STATED))


def one_in(count: int) -> pytest.MarkDecorator:
    """A run tries one in `count` of a test's parametrised cases, those of `drawn`; `make fuzz` all.

    For cases that are every combination of some lists, which differ little from their neighbours.
    """
    return pytest.mark.one_in(count)


def drawn(names: Iterable[str], count: int) -> set[str]:
    """One in `count` of the names, at least a few, drawn by a hash and so alike in each run."""
    ordered = sorted(names, key=lambda name: (crc32(name.encode()), name))
    return set(ordered[: max(FEW, -(-len(ordered) // count))])
