"""All entries of the cache: counted, verified, removed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from tilewright.common.cache.aside import locked, remove, sweep
from tilewright.common.cache.entries import damage, entries_below
from tilewright.common.cache.folders import cache_folder


class KindContent(Struct, frozen=True):
    """What the cache holds of one kind."""

    kind: str
    entries: int
    size_bytes: int


def contents() -> list[KindContent]:
    """What the user's cache holds, by kind. Raises OSError."""
    return [
        KindContent(kind, len(entries), sum(map(_size_bytes, entries)))
        for kind, entries in _by_kind().items()
    ]


def damaged_entries() -> dict[Path, str]:
    """The entries that will be made again, each with the reason. Raises OSError."""
    reasons = ((entry, damage(entry)) for found in _by_kind().values() for entry in found)
    return {entry: reason for entry, reason in reasons if reason}


def clear() -> list[KindContent]:
    """Remove all entries and what killed processes left; gives what was there. Raises OSError."""
    before, found = contents(), _by_kind()
    for place in _places():
        with locked(place):
            sweep(place)
            for entry in found.get(place.name, ()):
                remove(entry)
    return before


def _places() -> list[Path]:
    """The folders of the kinds, those without entries too. Raises OSError."""
    root = cache_folder()
    return sorted(p for p in root.iterdir() if p.is_dir()) if root.is_dir() else []


def _by_kind() -> Mapping[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(entries_below(cache_folder())):
        found.setdefault(path.parent.name, []).append(path)
    return found


def _size_bytes(entry: Path) -> int:
    files = entry.iterdir() if entry.is_dir() else [entry]
    return sum(path.lstat().st_size for path in files)
