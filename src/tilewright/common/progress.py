"""Callbacks for the progress of long work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

Progress = Callable[[str, int, int], None]
"""Called with the stage, the number of steps done, and their total."""


Steps = Callable[[int, int], None]
"""Progress within one stage: called with the number of steps done, and their total."""


def uncounted(done: int, total: int) -> None:
    """`Steps` that reports nothing."""


def silent(stage: str, done: int, total: int) -> None:
    """`Progress` that reports nothing."""


def told(progress: Progress, stage: str, items: Sequence[Item]) -> Iterator[Item]:
    """The items, with progress reported before each and after the last."""
    for done, item in enumerate(items):
        progress(stage, done, len(items))
        yield item
    progress(stage, len(items), len(items))
