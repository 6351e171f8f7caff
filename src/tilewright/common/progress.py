"""Callbacks by which long work reports its progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with (stage, how many are done, of how many)."""


Steps = Callable[[int, int], None]
"""Progress within one stage: called with (how many steps are done, of how many)."""


def uncounted(done: int, total: int) -> None:
    """Nobody counts the steps."""


def silent(stage: str, done: int, total: int) -> None:
    """No progress is shown."""
