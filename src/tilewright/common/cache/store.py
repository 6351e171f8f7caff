"""Entries by key: found and verified, or made aside and renamed into place atomically.

If two processes make the same entry, both use the first one in place. If the cache cannot be
written, entries go to a temporary folder of this process. An installation may ship entries that
users need not make, like extension modules.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from tilewright.common.cache.aside import aside, locked, remove
from tilewright.common.cache.entries import damage, entries_below, files_of, named, seal
from tilewright.common.cache.folders import CacheError, cache_folder, make_private, temporary_folder
from tilewright.common.digest import digest, own_sources

_LOG = logging.getLogger(__name__)
_VALUE = "value"
INSTALLED = Path(sys.prefix, "share", "tilewright")
"""Shipped values and folders of files, by kind and key; trusted like the installed modules."""

T = TypeVar("T")


class Make(Protocol):
    """Writes all files of an entry into a folder, or raises."""

    def __call__(self, folder: Path, /) -> None: ...


@dataclass(frozen=True)
class CacheStore:
    """The entries of one kind. Every method raises CacheError for an unsafe folder."""

    kind: str

    def files(self, key: str, make: Make) -> tuple[Path, ...]:
        """The files of an entry, sorted by name: shipped, from the cache, or made by `make`.

        Raises the errors of `make`, and CacheError if no folder can be written.
        """
        with suppress(OSError):
            return files_of(named(INSTALLED / self.kind, key))
        place = self._place()
        try:
            return files_of(_entry_of(place, key, make))
        except OSError as error:
            _warn(str(cache_folder()), _words(error))
        try:
            return files_of(_entry_of(_kind_folder(temporary_folder(), self.kind), key, make))
        except OSError as error:
            raise CacheError(
                f"cannot be written, and neither can {tempfile.gettempdir()}: {_words(error)}",
                where=str(cache_folder()),
                fix="free space, or set XDG_CACHE_HOME to a folder that can be written",
            ) from error

    def forget(self, key: str) -> None:
        """Remove an entry whose files turned out to be unusable. Raises OSError."""
        remove(named(self._place(), key))

    def recall(self, key: str) -> bytes | None:
        """The value shipped or cached under this key, or None."""
        with suppress(OSError):
            return named(INSTALLED / self.kind, key).read_bytes()
        with suppress(OSError):
            entry = named(self._place(), key)
            if _is_whole(entry):
                _LOG.info("%s: found in the cache", entry)
                return (entry / _VALUE).read_bytes()
        return None

    def remember(self, key: str, content: bytes) -> None:
        """Cache `content` for later processes; only warns if it cannot be written."""

        def write(folder: Path) -> None:
            (folder / _VALUE).write_bytes(content)

        try:
            _entry_of(self._place(), key, write)
        except OSError as error:
            _warn(str(cache_folder()), _words(error))

    def value(self, key: str, kind: type[T], compute: Callable[[], T]) -> T:
        """A value from the cache, or computed and cached; msgspec encodes it as JSON."""
        content = self.recall(key)
        if content is not None:
            with suppress(msgspec.MsgspecError):
                return msgspec.json.decode(content, type=kind)
            self.forget(key)
        found = compute()
        self.remember(key, msgspec.json.encode(found))
        return found

    def text(self, of: object, make: Callable[[], str]) -> str:
        """The text that `make` returns, cached by the sources of tilewright and the `repr` of `of`,
        which must determine the text.
        """
        return self.value(digest(own_sources(), repr(of)), str, make)

    def _place(self) -> Path:
        """The folder of this kind in the user's cache, or, if that fails, in a temporary one."""
        try:
            return _kind_folder(cache_folder(), self.kind)
        except OSError as error:
            _warn(str(cache_folder()), _words(error))
        return _kind_folder(temporary_folder(), self.kind)


def _kind_folder(root: Path, kind: str) -> Path:
    """The private folder of a kind; entries that others could have written are removed."""
    for folder in (root, root / kind):
        if not make_private(folder):
            _LOG.warning("%s could be written by other users: its entries are removed", folder)
            for path in entries_below(root):
                remove(path)
    return root / kind


def _entry_of(place: Path, key: str, make: Make) -> Path:
    """The entry of a key in `place`, made if it is missing or damaged."""
    entry = named(place, key)
    if _is_whole(entry):
        _LOG.info("%s: found in the cache", entry)
    else:
        _LOG.info("%s: not in the cache, it is made", entry)
        with aside(place) as filling:
            make(filling)
            seal(filling)
            with locked(place):
                _publish(filling, entry)
    return entry


def _is_whole(entry: Path) -> bool:
    if not os.path.lexists(entry):
        return False
    reason = damage(entry)
    if reason:
        _LOG.info("%s %s: it is made again", entry, reason)
    return reason is None


def _publish(filling: Path, entry: Path) -> None:
    """Rename a sealed folder to its entry, unless another process was faster."""
    if not _is_whole(entry):
        remove(entry)
        filling.rename(entry)


@cache
def _warn(folder: str, reason: str) -> None:
    """Warn once that new entries will not be kept."""
    _LOG.warning("%s: %s; working without the cache, XDG_CACHE_HOME moves it", folder, reason)


def _words(error: OSError) -> str:
    return error.strerror or str(error)
