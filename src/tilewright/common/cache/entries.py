"""One entry of the cache: a folder of files and a manifest of their sizes and digests.

The manifest is verified before anything is loaded, since loading a truncated library, for instance,
would kill the process with a signal.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from tilewright.common.cache.folders import CacheError, writable_by_others
from tilewright.common.digest import digest_of_file

MANIFEST = "manifest.json"
_KEY = re.compile("[0-9a-f]{16,64}")
"""A digest (`common.digest`), or its first digits, which name results that are also shipped."""


class FileRecord(Struct, frozen=True):
    """Size and digest of one file of an entry."""

    size_bytes: int
    sha256: str


class Manifest(Struct, frozen=True):
    """Records of all files of an entry except the manifest, by name."""

    files: dict[str, FileRecord]


def seal(entry: Path) -> None:
    """Write the manifest of the files in `entry`.

    Raises CacheError if there are no files, OSError if the manifest cannot be written.
    """
    found = {}
    for path in sorted(entry.iterdir()):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXU)
        found[path.name] = FileRecord(path.stat().st_size, digest_of_file(path))
    if not found:
        raise CacheError("nothing was made for this entry of the cache", where=str(entry))
    (entry / MANIFEST).write_bytes(msgspec.json.encode(Manifest(found)))


def damage(entry: Path) -> str | None:
    """The reason why an entry counts as damaged; None if it is intact."""
    try:
        if not stat.S_ISDIR(entry.lstat().st_mode) or writable_by_others(entry.lstat()):
            return "is not a folder of this user alone"
        present = {item.name: item.stat(follow_symlinks=False) for item in os.scandir(entry)}
        for name, found in present.items():
            if not stat.S_ISREG(found.st_mode) or writable_by_others(found):
                return f"holds {name}, not a file of this user alone"
        manifest = msgspec.json.decode((entry / MANIFEST).read_bytes(), type=Manifest)
        return _difference(entry, present, manifest.files)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        return f"cannot be read: {error}"


def files_of(entry: Path) -> tuple[Path, ...]:
    """The files of an entry, sorted by name."""
    return tuple(sorted(path for path in entry.iterdir() if path.name != MANIFEST))


def named(place: Path, key: str) -> Path:
    """The path of a key's entry in the folder of a kind.

    Raises ValueError for a key that is no digest, since its entry would never be listed or removed.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(f"a key of the cache is 16 to 64 digits of a digest, found {key!r}")
    return place / key


def entries_below(root: Path) -> Iterator[Path]:
    """Paths of all entries below `root`: names that are keys, in the folders of all kinds."""
    return (path for path in root.glob("*/*") if _KEY.fullmatch(path.name))


def entries_in(place: Path) -> list[Path]:
    """Entries in the folder of one kind, by name. Raises OSError."""
    return sorted(path for path in place.iterdir() if _KEY.fullmatch(path.name))


def _difference(
    entry: Path, present: Mapping[str, os.stat_result], expected: Mapping[str, FileRecord]
) -> str | None:
    for name in sorted(present.keys() - expected.keys() - {MANIFEST}):
        return f"holds {name}, which is not in its manifest"
    for name, record in expected.items():
        if name not in present:
            return f"lacks {name}"
        size_bytes = present[name].st_size
        if size_bytes != record.size_bytes:
            return f"holds {size_bytes} bytes of {name}, not {record.size_bytes}"
        if digest_of_file(entry / name) != record.sha256:
            return f"holds another {name} than was made"
    return None
