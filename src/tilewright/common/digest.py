"""Digests of values: parts of a key in, hexadecimal digits out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""The folder of tilewright itself."""


def digest(*parts: str | bytes | memoryview) -> str:
    """64 digits that change with every part, and with where one part ends and the next begins.

    One part gives its SHA-256, several the SHA-256 of their digests.
    """
    found = [hashlib.sha256(p.encode() if isinstance(p, str) else p).hexdigest() for p in parts]
    return found[0] if len(found) == 1 else hashlib.sha256("\n".join(found).encode()).hexdigest()


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file's content. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_files(folder: Path, names: Iterable[str]) -> str:
    """A digest of files by their names below `folder` and their contents. Raises OSError."""
    lines = (f"{name} {digest(_content(folder, name))}" for name in names)
    return digest("\n".join(sorted(lines)))


@cache
def own_sources() -> str:
    """A digest of all files of tilewright: another version may generate other code."""
    return digest_of_files(PACKAGE, names_below(PACKAGE))


def names_below(folder: Path) -> Iterator[str]:
    """The files in a folder of sources, as paths below it, without Python's caches of them."""
    start = len(os.path.join(folder, ""))
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(place, name)[start:] for name in files)


def _content(folder: Path, name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:  # paths as texts: a third of the time
        return file.read()
