"""Options of the search for a network's kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Search:
    """Options of the search: candidates of `algorithm` where it applies, of at most `max_error` and
    `max_roundings` of a sum, `keep` each, with the best `top` of them measured.
    """

    algorithm: str | None = None
    max_error: float | None = None
    keep: int = 4
    top: int = 0
    max_roundings: int | None = None


BY_THE_MODEL = Search()
"""Any algorithm, as the model ranks them."""
