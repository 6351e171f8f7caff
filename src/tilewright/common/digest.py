"""The one way to digest values: parts of a key in, hexadecimal digits out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""The folder of tilewright itself."""


def digest(*parts: str | bytes) -> str:
    """64 digits that change with every part, and with where one part ends and the next begins.

    One part gives its SHA-256, several the SHA-256 of their digests.
    """
    found = [hashlib.sha256(p.encode() if isinstance(p, str) else p).hexdigest() for p in parts]
    return found[0] if len(found) == 1 else hashlib.sha256("\n".join(found).encode()).hexdigest()


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file's content. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_files(paths: Iterable[Path], root: Path) -> str:
    """A digest of the files' contents and of their paths below `root`. Raises OSError."""
    lines = (f"{path.relative_to(root)} {digest_of_file(path)}" for path in paths)
    return digest("\n".join(sorted(lines)))


@cache
def own_sources() -> str:
    """A digest of all files of tilewright: what one version generates is not what another does."""
    return digest_of_files(files_below(PACKAGE), PACKAGE)


def files_below(folder: Path) -> set[Path]:
    """Modules and data in a folder of sources, without what Python keeps of them."""
    return {path for path in folder.rglob("*.*") if "__pycache__" not in path.parts}
