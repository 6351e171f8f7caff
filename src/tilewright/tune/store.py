"""Stores of finished results, each one SQLite file (WAL) that survives kills.

In: the file and its kind (a schema, a mark that tells it from other databases). Out: an open
connection. A record is one committed transaction: a process killed at any moment loses no finished
record, and writers wait for each other instead of failing. Keys are digests of everything that can
change a result, so an outdated record is never wrong, only unused.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tilewright.common.errors import RecordError
from tilewright.common.files import require_regular

_BUSY_SECONDS = 60.0
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_WRITE)
_HEADER = b"SQLite format 3\0"

T = TypeVar("T")


@dataclass(frozen=True)
class StoreKind:
    """Kind of a store: `title` for messages, its file's mark and format, its one table."""

    title: str
    application_id: int
    format: int
    table: str
    schema: str


class Store:
    """An open store; a context manager. Every failure of the file is a RecordError."""

    def __init__(self, path: str | Path, kind: StoreKind) -> None:
        self.path = Path(path)
        self._kind = kind
        self._check_header()
        is_new = not self.path.exists()
        with self._guarded():
            self._connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None
            )
        try:
            with self._guarded():
                self._prepare()
        except RecordError:
            self._connection.close()
            if is_new:
                self._remove_empty()
            raise

    def __len__(self) -> int:
        return int(self._row(f"SELECT count(*) FROM {self._kind.table}", ())[0])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _row(self, statement: str, values: tuple[Any, ...]) -> Any:
        with self._guarded():
            return self._connection.execute(statement, values).fetchone()

    def _insert(self, values: tuple[Any, ...]) -> None:
        """Commit one row; the first one of a key stays."""
        places = ", ".join("?" * len(values))
        statement = f"INSERT INTO {self._kind.table} VALUES ({places}) ON CONFLICT DO NOTHING"
        with self._guarded():
            self._connection.execute(statement, values)

    def _prepare(self) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {int(_BUSY_SECONDS * 1000)}")
        self._check_owner()
        _patiently(lambda: self._connection.execute("PRAGMA journal_mode = WAL"))
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("BEGIN IMMEDIATE")  # one process creates the table, others wait
        try:
            if self._number("application_id") == 0:
                self._connection.execute(self._kind.schema)
                self._connection.execute(f"PRAGMA application_id = {self._kind.application_id}")
                self._connection.execute(f"PRAGMA user_version = {self._kind.format}")
        finally:
            self._connection.execute("COMMIT")

    def _check_header(self) -> None:
        """Refuse other files: SQLite overwrites one of a few bytes as an empty database."""
        try:
            require_regular(self.path)
        except OSError as error:
            raise self._refusal(
                f"cannot be used for {self._kind.title}: {error.strerror}"
            ) from None
        try:
            with self.path.open("rb") as file:
                header = file.read(len(_HEADER))
        except OSError:
            return  # absent, or unreadable, which SQLite reports
        if header not in (b"", _HEADER):
            raise self._refusal(f"cannot be used for {self._kind.title}: file is not a database")

    def _check_owner(self) -> None:
        owner, tables, found = self._marks()
        expected = self._kind.application_id
        if owner != expected and (owner or tables):
            raise self._refusal("is a database of another program")
        if owner == expected and found != self._kind.format:
            raise self._refusal(
                f"has format {found} of {self._kind.title}, this version reads {self._kind.format}"
            )

    def _marks(self) -> tuple[int, int, int]:
        """Owner, number of tables, format, in one transaction: others may be creating the file."""
        self._connection.execute("BEGIN")
        try:
            tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            return self._number("application_id"), int(tables), self._number("user_version")
        finally:
            self._connection.execute("COMMIT")

    def _number(self, pragma: str) -> int:
        return int(self._connection.execute(f"PRAGMA {pragma}").fetchone()[0])

    def _refusal(self, what: str) -> RecordError:
        return RecordError(
            what, where=str(self.path), fix="give another file, or move this one away"
        )

    def _remove_empty(self) -> None:
        """Remove the file just created, unless another process has filled it meanwhile."""
        beside = (self.path.with_name(self.path.name + end) for end in ("-wal", "-journal"))
        with suppress(OSError):
            if not self.path.stat().st_size and not any(other.exists() for other in beside):
                self.path.unlink()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            refusal = self._refusal(f"cannot be used for {self._kind.title}: {error}")
            if getattr(error, "sqlite_errorcode", 0) in _NO_ROOM:
                refusal.fix = "free space, or give a file on another disk"
            raise refusal from error


def _patiently(action: Callable[[], T]) -> T:
    """Retry `action` while others hold the file: switching to WAL ignores the busy timeout."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
