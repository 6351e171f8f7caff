"""Files that a user names: read if they are finite, written completely or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


def require_regular(path: Path) -> None:
    """Raise an explanatory OSError for files that could block forever on open or read: named pipes,
    sockets, devices. Files that a shell substitutes (`<(...)`, `/dev/stdin` after `|`) have no name
    of their own and are accepted; so are missing files.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # opening the file will report the reason
    is_piped = stat.S_ISFIFO(mode) and not os.path.exists(os.path.realpath(path))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or is_piped):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_file(path: Path) -> bytes:
    """The content of a file. Raises OSError, also for files that `require_regular` refuses."""
    require_regular(path)
    return path.read_bytes()


def read_file_text(path: Path, errors: str = "strict") -> str:
    """The UTF-8 text of a file, with lines ended by `\\n`. Raises as `read_file` does, and
    UnicodeDecodeError depending on `errors` (see `bytes.decode`).
    """
    require_regular(path)
    return path.read_text(encoding="utf-8", errors=errors)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to fill, which replaces `path` when the block ends without an error: readers of `path`
    see either the old or the new content, complete.

    Links are followed, and the mode of an old file is kept. Other than regular files, such as pipes
    and terminals, are written in place, as are files in folders that accept no new ones. Raises
    OSError that names `path`.
    """
    try:
        target = Path(os.path.realpath(path))
        found = target.stat() if target.exists() else None
        if found is not None and not _is_replaceable(target, found):
            with target.open("wb") as file:
                yield file
            return
        filling = target.with_name(f".tilewright-{uuid4().hex}")
        try:
            with filling.open("xb") as file:
                if found is not None:
                    filling.chmod(stat.S_IMODE(found.st_mode))
                yield file
            filling.replace(target)
        finally:
            filling.unlink(missing_ok=True)
    except OSError as error:
        if error.filename is not None and Path(os.fsdecode(error.filename)) == path:
            raise
        number = error.errno or errno.EIO
        raise OSError(number, error.strerror or str(error), str(path)) from error


def _is_replaceable(target: Path, found: os.stat_result) -> bool:
    return (
        stat.S_ISREG(found.st_mode)
        and os.access(target, os.W_OK)
        and os.access(target.parent, os.W_OK)
    )
