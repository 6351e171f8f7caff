"""Private folders, for code that is loaded later.

A folder that others can write may hold their code. A folder of another user is refused. A folder of
this user gets mode 0700, and entries from before are not used if others could have written them. A
link of this user is followed, but the mode of its target is never changed: the target is refused if
others may enter it.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
import tempfile
from functools import cache
from pathlib import Path

from tilewright.common.errors import TilewrightError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OWN_PLACE = "set XDG_CACHE_HOME to a folder of your own"


class CacheError(TilewrightError):
    """A cache folder is not safe to use, or cannot be written."""

    code = "cache"


def cache_folder() -> Path:
    """The folder of tilewright's cache: below $XDG_CACHE_HOME, or ~/.cache.

    Raises CacheError if neither exists.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(base or "~/.cache").expanduser().absolute() / "tilewright"
    except RuntimeError:
        raise CacheError("this user has no home folder for the cache", fix=_OWN_PLACE) from None


@cache
def temporary_folder() -> Path:
    """A cache folder of this process, removed when it ends. Raises OSError."""
    _kept_alive.append(tempfile.TemporaryDirectory(prefix="tilewright-"))
    return Path(_kept_alive[-1].name)


_kept_alive: list[tempfile.TemporaryDirectory[str]] = []


def make_private(folder: Path) -> bool:
    """Make the folder, or revoke others' access; returns True if its content can be trusted.

    Raises CacheError if it belongs to another user, stays writable for others, or is a link to a
    folder that others may enter; OSError if it cannot be made.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
    mode = _owned_mode(folder)
    if mode & _OTHERS:
        _close_to_others(folder, mode)
    return not mode & _OTHERS_WRITE


def is_there(folder: Path) -> bool:
    """True if the folder exists; nothing is made or changed.

    Raises CacheError if it belongs to another user or is a link to a folder that others may enter,
    OSError if it is no folder.
    """
    try:
        folder.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(_owned_mode(folder)):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    return True


def writable_by_others(found: os.stat_result) -> bool:
    """True if another user could have written this file or folder."""
    return found.st_uid != os.geteuid() or bool(found.st_mode & _OTHERS_WRITE)


def _owned_mode(folder: Path) -> int:
    for found in (folder.lstat(), folder.stat()):
        if found.st_uid != os.geteuid():
            raise CacheError(
                f"belongs to user {found.st_uid} and not to you, user {os.geteuid()}: "
                "nothing is loaded from it",
                where=str(folder),
                fix=f"remove it, or {_OWN_PLACE}",
            )
    if folder.is_symlink() and stat.S_ISDIR(found.st_mode) and found.st_mode & _OTHERS:
        target = folder.resolve()
        raise CacheError(
            f"is a link to {target}, which other users may enter "
            f"(mode {stat.S_IMODE(found.st_mode):o}); a cache is of one user alone",
            where=str(folder),
            fix=f"chmod 700 {shlex.quote(str(target))} if it is for this, or {_OWN_PLACE}",
        )
    return found.st_mode


def _close_to_others(folder: Path, mode: int) -> None:
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchmod(opened, stat.S_IMODE(mode) & stat.S_IRWXU)
        finally:
            os.close(opened)
        reason = "its mode does not change"
    except OSError as error:
        reason = error.strerror or str(error)
    if folder.stat().st_mode & _OTHERS_WRITE:
        raise CacheError(
            f"can be written by other users, and cannot be closed to them: {reason}; "
            "nothing is loaded from it",
            where=str(folder),
            fix=_OWN_PLACE,
        )
