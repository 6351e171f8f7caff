"""Folders beside the entries, for entries that are being filled or removed.

Such a folder stays locked while its process lives. So the leftovers of a killed process are
recognised, and the next process that makes an entry of that kind removes them. On file systems
without locks they stay.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

PREFIX = ".aside-"


@contextmanager
def aside(place: Path) -> Iterator[Path]:
    """A folder in `place` to fill; it is removed on exit unless renamed. Raises OSError."""
    with locked(place):
        _sweep_once(place)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        lock = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(lock)


@cache
def _sweep_once(place: Path) -> None:
    """`sweep` once per process, since it lists all entries, possibly many thousands."""
    sweep(place)


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Exclude other processes and threads that add or remove names in `place`."""
    lock = _lock(place)
    try:
        yield
    finally:
        _unlock(lock)


def sweep(place: Path) -> None:
    """Remove the folders of processes that no longer run."""
    for path in place.glob(f"{PREFIX}*"):
        with suppress(OSError):  # its process still runs, or has just removed it
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                _unlock(lock)


def remove(path: Path) -> None:
    """Remove a file or folder under its name atomically; processes that loaded files keep them.

    Raises OSError.
    """
    if not os.path.lexists(path):
        return
    gone = path.rename(path.with_name(f"{PREFIX}{uuid4().hex}"))
    if gone.is_dir() and not gone.is_symlink():
        with suppress(OSError):
            gone.chmod(stat.S_IRWXU)  # an unreadable folder could not be removed
        shutil.rmtree(gone, ignore_errors=True)
    else:
        gone.unlink()


def _lock(folder: Path) -> int:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _unlock(lock: int) -> None:
    # Closing is not enough: a forked child may hold the same lock.
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)
