"""Files of timings that come with tilewright, by instruction table: reading and writing them.

Each holds what was derived, and a `question`: a digest of all that it was derived from. Where
today's question is another one, timings are derived when they are asked for and kept in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from tilewright.common.cache import Cache
from tilewright.common.digest import digest

Kept = TypeVar("Kept", bound=msgspec.Struct)
Timing_co = TypeVar("Timing_co", bound=msgspec.Struct, covariant=True)
Timing = TypeVar("Timing", bound=msgspec.Struct)


class Shipped(Protocol[Timing_co]):
    """The timings of one core, by routine."""

    @property
    def question(self) -> str:
        """Digest of all that they are derived from."""

    @property
    def routines(self) -> Mapping[str, Timing_co]:
        """Each routine's, by its name."""


def read_timings(file: str, kind: type[Kept]) -> Mapping[str, Kept]:
    """The timings of a shipped file, by instruction table."""
    text = (resources.files(__package__) / file).read_text(encoding="utf-8")
    return msgspec.json.decode(text, type=dict[str, kind])  # type: ignore[valid-type]


def write_timings(path: Path, found: Mapping[str, msgspec.Struct], indent: int = 1) -> None:
    """Write the file that ships these timings, by instruction table."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=indent) + b"\n")


def routine_timing(
    shipped: Shipped[Timing] | None,
    asked: str,
    name: str,
    kind: type[Timing],
    derive: Callable[[], Timing],
) -> Timing:
    """The timing of one routine: shipped under the same question, kept, or derived now."""
    if shipped is not None and shipped.question == asked and name in shipped.routines:
        return shipped.routines[name]
    return Cache("primitives").value(digest(asked, name)[:16], kind, derive)
