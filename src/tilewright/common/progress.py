"""Callbacks by which long work reports its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

Progress = Callable[[str, int, int], None]
"""Called with (stage, how many are done, of how many)."""


Steps = Callable[[int, int], None]
"""Progress within one stage: called with (how many steps are done, of how many)."""


def uncounted(done: int, total: int) -> None:
    """Nobody counts the steps."""


def silent(stage: str, done: int, total: int) -> None:
    """No progress is shown."""


def told(progress: Progress, stage: str, items: Sequence[Item]) -> Iterator[Item]:
    """The items, with how many are done told before each of them and behind the last."""
    for done, item in enumerate(items):
        progress(stage, done, len(items))
        yield item
    progress(stage, len(items), len(items))
