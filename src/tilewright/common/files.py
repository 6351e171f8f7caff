"""Files that a user names: read where they have an end, written whole or not at all."""

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
    """Raise OSError, in words, for files whose opening or reading could wait without end: named
    pipes, sockets, devices. Files that the shell or another program substitutes (`<(...)`,
    `/dev/stdin` behind `|`) have no name of their own and pass; missing ones pass, too.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # whoever opens it says why
    is_piped = stat.S_ISFIFO(mode) and not os.path.exists(os.path.realpath(path))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or is_piped):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_file(path: Path) -> bytes:
    """The content of a file. Raises OSError, also for files that may never end."""
    require_regular(path)
    return path.read_bytes()


def read_file_text(path: Path, errors: str = "strict") -> str:
    """The UTF-8 text of a file with its lines ended by `\\n`. Raises as `read_file` does, and
    UnicodeDecodeError unless `errors` (see `bytes.decode`) says otherwise.
    """
    require_regular(path)
    return path.read_text(encoding="utf-8", errors=errors)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to fill, which takes the place of `path` when the block ends well: whoever reads
    `path` sees the old content or the new one, whole.

    A link is followed, an old file's mode is kept. What is no regular file, a pipe or a terminal
    say, is written where it is, and so is a file in a folder that takes no others. Raises OSError
    that names `path`.
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
