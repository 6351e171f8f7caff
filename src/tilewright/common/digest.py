"""Digests: parts of a key in, hexadecimal digits out."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""The folder of tilewright itself."""


def digest(*parts: str | bytes | memoryview) -> str:
    """64 digits that depend on all parts and on the boundaries between them.

    The digest of one part is its SHA-256; of several, the SHA-256 of their digests.
    """
    found = [hashlib.sha256(p.encode() if isinstance(p, str) else p).hexdigest() for p in parts]
    return found[0] if len(found) == 1 else hashlib.sha256("\n".join(found).encode()).hexdigest()


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file's content. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_code(folder: Path, names: Iterable[str]) -> str:
    """A digest of files, by their names below `folder` and their contents; Python files count
    without docstrings, comments and empty lines. Raises OSError.
    """
    return _of_named((name, _digest_of_code(folder, name)) for name in names)


@cache
def own_sources() -> str:
    """A digest of all files of tilewright, since another version may generate other code."""
    # Including comments: removing them would take longer than the rest of a short command.
    return _of_named((name, digest(_content(PACKAGE, name))) for name in names_below(PACKAGE))


def names_below(folder: Path) -> Iterator[str]:
    """The files in a folder of sources, as paths below it, without Python's bytecode caches."""
    start = len(os.path.join(folder, ""))
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(place, name)[start:] for name in files)


_LONG = rb'"""(?:[^"\\]|\\.|"(?!""))*"""'
_SHORT = rb'"(?:[^"\\\n]|\\.)*"'
_TEXTS = b"|".join(t.replace(b'"', q) for t in (_LONG, _SHORT) for q in (b'"', b"'"))
_SAYS_NOTHING = re.compile(
    rb"\n[ \t]*(?:[rR]?" + _LONG + rb"(?=[ \t]*[#\n])|(?:#[^\n]*)?(?=\n))"
    rb"|[ \t]*#[^\n]*"
    rb"|(" + _TEXTS + rb")",
    re.DOTALL,
)
"""A docstring, an empty line, a comment, or, as a group, a string that is part of the program."""


def without_comments(source: bytes) -> bytes:
    """Python source without its docstrings, comments and empty lines."""
    return _SAYS_NOTHING.sub(rb"\1", b"\n" + source)


def _digest_of_code(folder: Path, name: str) -> str:
    content = _content(folder, name)
    return digest(without_comments(content) if name.endswith(".py") else content)


def _of_named(digests: Iterable[tuple[str, str]]) -> str:
    return digest("\n".join(sorted(f"{name} {found}" for name, found in digests)))


def _content(folder: Path, name: str) -> bytes:
    with open(os.path.join(folder, name), "rb") as file:  # text paths take a third of the time
        return file.read()
