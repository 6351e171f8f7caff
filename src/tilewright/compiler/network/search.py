"""How the kernels of a network are chosen, and how progress is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str, int, int], None]
"""Called with (stage, how many are done, of how many)."""


def silent(stage: str, done: int, total: int) -> None:
    """No progress is shown."""


@dataclass(frozen=True)
class Search:
    """How kernels are chosen: among those of `algorithm` where it applies, and of at most the
    `max_error`, `keep` candidates each, the `top` best of them measured.
    """

    algorithm: str | None = None
    max_error: float | None = None
    keep: int = 4
    top: int = 0


BY_THE_MODEL = Search()
"""Any algorithm, as the model ranks them."""
