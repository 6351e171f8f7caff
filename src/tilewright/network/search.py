"""How the kernels of a network are chosen."""

from __future__ import annotations

from dataclasses import dataclass


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
