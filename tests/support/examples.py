"""How many examples a property draws: what it states in every run, more in `make fuzz`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

STATED = 100
"""Examples of a property that states no number; the profiles of Hypothesis scale from it."""

ROUND = 8
"""How many times more a round of `make fuzz` draws, other ones in each round."""


def register_profiles() -> None:
    """`quick`, the same examples in every run, and `fuzz`, new ones and those that once failed."""
    settings.register_profile(
        "quick",
        max_examples=STATED,
        deadline=None,
        derandomize=True,
        # A fresh temporary folder per example is not needed: each writes its own file over. How
        # busy the computer is decides no test.
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    settings.register_profile(
        "fuzz", settings.get_profile("quick"), max_examples=ROUND * STATED, derandomize=False
    )
    settings.load_profile("quick")


def examples(count: int) -> settings:
    """`count` examples in every run, in proportion with another profile."""
    return settings(max_examples=count * settings.default.max_examples // STATED)
