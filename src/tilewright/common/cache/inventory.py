"""All entries of the cache: counted, verified, removed.

Unsafe folders are refused here, too: functions raise CacheError if the cache belongs to another
user, OSError if it is no folder or cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tilewright.common.cache.aside import locked, remove, sweep
from tilewright.common.cache.entries import damage, entries_in
from tilewright.common.cache.folders import cache_folder, is_there, writable_by_others

_OPEN = "lies in a folder that other users can write"


class KindContent(Struct, frozen=True):
    """Number and total size of the cache's entries of one kind."""

    kind: str
    entries: int
    size_bytes: int


def contents() -> list[KindContent]:
    """Contents of the user's cache, by kind; unreadable entries count 0 bytes."""
    return [
        KindContent(place.name, len(entries), sum(map(_size_bytes, entries)))
        for place in _places()
        if (entries := entries_in(place))
    ]


def damaged_entries(advance: Callable[[int, int], None] | None = None) -> dict[Path, str]:
    """Damaged entries, which will be made again, with the reasons; calls `advance` with the number
    of entries verified and their total.
    """
    found = {}
    places = _places()
    done, total = 0, sum(len(entries_in(place)) for place in places)
    for place in places:
        is_open = any(writable_by_others(folder.stat()) for folder in (place, place.parent))
        for entry in entries_in(place):
            reason = _OPEN if is_open else damage(entry)
            if reason:
                found[entry] = reason
            done += 1
            if advance:
                advance(min(done, total), total)  # another process may add entries
    return found


def clear() -> list[KindContent]:
    """Remove all entries and the leftovers of killed processes; returns the former contents."""
    before = contents()
    for place in _places():
        with locked(place):
            sweep(place)
            for entry in entries_in(place):
                remove(entry)
    return before


def _places() -> list[Path]:
    """The folders of all kinds, including empty ones."""
    root = cache_folder()
    folders = (path for path in root.iterdir() if path.is_dir()) if is_there(root) else ()
    return sorted(filter(is_there, folders))


def _size_bytes(entry: Path) -> int:
    with suppress(OSError):  # unreadable, or just removed by another process
        files = entry.iterdir() if entry.is_dir() else [entry]
        return sum(path.lstat().st_size for path in files)
    return 0
