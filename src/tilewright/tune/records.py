"""Persistent tuning records: a store of finished measurements.

In: the subject of a measurement (operator, machine, schedule, kind of measure) and its result. Out:
the result, in any later run of any process (`tune.store` states the guarantees). The key digests
everything that can change the result, including tilewright's version.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.common.digest import digest
from tilewright.common.version import tool_version
from tilewright.machine import Machine
from tilewright.ops import Op
from tilewright.tune.store import Store, StoreKind

_KIND = StoreKind(
    title="tuning records",
    application_id=0x74776D31,
    format=1,
    table="measurements",
    schema="""
CREATE TABLE measurements (
    key TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    cycles INTEGER NOT NULL,
    operator TEXT NOT NULL,
    machine TEXT NOT NULL,
    schedule TEXT NOT NULL,
    version TEXT NOT NULL
) WITHOUT ROWID
""",
)


@dataclass(frozen=True)
class MeasuredSubject:
    """Subject of a measurement: operator, machine, schedule, kind of measure, version."""

    operator: str
    machine: str
    schedule: str
    kind: str
    version: str

    @property
    def key(self) -> str:
        """Digest of all fields."""
        return digest(self.operator, self.machine, self.schedule, self.kind, self.version)


def subject(op: Op, machine: Machine, schedule: str, kind: str) -> MeasuredSubject:
    """The subject of one measurement; `repr` of an operator is complete."""
    return MeasuredSubject(repr(op), machine.content_hash(), schedule, kind, tool_version())


class Records(Store):
    """An open store of measurements."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, _KIND)

    def get(self, what: MeasuredSubject) -> int | None:
        """The cycles recorded for `what`, or None if there is no record."""
        row = self._row("SELECT cycles FROM measurements WHERE key = ?", (what.key,))
        return None if row is None else int(row[0])

    def put(self, what: MeasuredSubject, cycles: int) -> None:
        """Commit one measurement; the first one of a subject stays."""
        fields = (what.operator, what.machine, what.schedule, what.version)
        self._insert((what.key, what.kind, cycles, *fields))
