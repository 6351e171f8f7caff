"""Tuning records that survive: one SQLite file (WAL) of finished measurements.

In: what was measured (operator, machine, schedule, kind of measure) and its result. Out: the result
again, in any later run, of any process. A record is one committed transaction: a process killed at
any moment loses no finished record, and writers wait for each other instead of failing. The key is
a digest of everything that can change the result, tilewright's version included, so a record is
never wrong, only unused.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tilewright.common.errors import RecordError
from tilewright.machine import Machine
from tilewright.ops import Op

_APPLICATION_ID = 0x74776D31
_FORMAT = 1
_BUSY_SECONDS = 60.0
_SCHEMA = """
CREATE TABLE measurements (
    key TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    cycles INTEGER NOT NULL,
    operator TEXT NOT NULL,
    machine TEXT NOT NULL,
    schedule TEXT NOT NULL,
    version TEXT NOT NULL
) WITHOUT ROWID
"""

T = TypeVar("T")


def tool_version() -> str:
    """The installed version of tilewright; "uninstalled" when run from plain sources."""
    try:
        return version("tilewright")
    except PackageNotFoundError:
        return "uninstalled"


@dataclass(frozen=True)
class Subject:
    """What was measured: an operator on a machine under a schedule, by a kind of measure."""

    operator: str
    machine: str
    schedule: str
    kind: str
    version: str

    @property
    def key(self) -> str:
        """Digest of all fields."""
        fields = (self.operator, self.machine, self.schedule, self.kind, self.version)
        return hashlib.sha256("\0".join(fields).encode()).hexdigest()


def subject(op: Op, machine: Machine, schedule: str, kind: str) -> Subject:
    """The subject of one measurement; operators print all that they are."""
    return Subject(repr(op), machine.content_hash(), schedule, kind, tool_version())


class Records:
    """An open store; a context manager. Every failure of the file is a RecordError."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self._guarded():
            self._connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None
            )
        try:
            with self._guarded():
                self._prepare()
        except RecordError:
            self._connection.close()
            raise

    def get(self, what: Subject) -> int | None:
        """The cycles recorded for `what`, None where there is no record."""
        with self._guarded():
            row = self._connection.execute(
                "SELECT cycles FROM measurements WHERE key = ?", (what.key,)
            ).fetchone()
        return None if row is None else int(row[0])

    def put(self, what: Subject, cycles: int) -> None:
        """Commit one measurement; a second one of the same subject changes nothing."""
        row = (what.key, what.kind, cycles, what.operator, what.machine, what.schedule)
        with self._guarded():
            self._connection.execute(
                "INSERT INTO measurements VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (*row, what.version),
            )

    def __len__(self) -> int:
        with self._guarded():
            row = self._connection.execute("SELECT count(*) FROM measurements").fetchone()
        return int(row[0])

    def close(self) -> None:
        """Give the file back."""
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

    def _prepare(self) -> None:
        self._connection.execute(f"PRAGMA busy_timeout = {int(_BUSY_SECONDS * 1000)}")
        self._check_owner()
        _patiently(lambda: self._connection.execute("PRAGMA journal_mode = WAL"))
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if self._number("application_id") == 0:
                self._connection.execute(_SCHEMA)
                self._connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                self._connection.execute(f"PRAGMA user_version = {_FORMAT}")
        finally:
            self._connection.execute("COMMIT")

    def _check_owner(self) -> None:
        owner = self._number("application_id")
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if owner != _APPLICATION_ID and (owner or tables):
            raise self._refusal("is a database of another program")
        found = self._number("user_version")
        if owner == _APPLICATION_ID and found != _FORMAT:
            raise self._refusal(
                f"has format {found} of tuning records, this version reads {_FORMAT}"
            )

    def _number(self, pragma: str) -> int:
        return int(self._connection.execute(f"PRAGMA {pragma}").fetchone()[0])

    def _refusal(self, what: str) -> RecordError:
        return RecordError(
            what, where=str(self.path), fix="give another file, or move this one away"
        )

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._refusal(f"cannot be used for tuning records: {error}") from error


def _patiently(action: Callable[[], T]) -> T:
    """Switching to WAL does not honour the busy timeout; try again while others hold the file."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
