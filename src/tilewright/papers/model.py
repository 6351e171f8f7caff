"""Results of experiments: rows of published and own numbers, each with its kind of number."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from msgspec import Struct

from tilewright.common.errors import TilewrightError
from tilewright.report.reproduction import Kind as Kind
from tilewright.report.reproduction import Result as Result
from tilewright.report.reproduction import Row as Row

WORTH_EXPLAINING = 0.1
"""A published number that ours is further from needs a reason."""


class ExperimentError(TilewrightError):
    """An experiment that is not there, a table of published numbers that cannot be read."""

    code = "experiment"


class Findings(Struct, frozen=True):
    """Rows of one experiment, a few numbers about all of them, and remarks."""

    rows: tuple[Row, ...]
    summary: dict[str, float | str] = {}
    notes: tuple[str, ...] = ()


def compare(
    name: str,
    published: float | None,
    ours: float | None,
    kind: Kind,
    *,
    note: str = "",
    unit: str = "",
    explanation: str = "",
) -> Row:
    """A row with its deviation; the `explanation` is for one beyond `WORTH_EXPLAINING`."""
    deviation = ours / published - 1 if published and ours is not None else None
    if explanation and deviation is not None and abs(deviation) > WORTH_EXPLAINING:
        note = "; ".join(filter(None, (note, explanation)))
    return Row(name, published, ours, deviation, kind, note, unit)


def sampled(count: int, total: int, what: str = "cases") -> str:
    """Note for a row on some of all cases, as in a quick run; empty for all."""
    return f"of {count} of {total} {what}" if count < total else ""


def scaled(count: int, total: int, what: str = "cases") -> str:
    """Note for a count over some of the cases that is scaled up to all; empty for all."""
    return f"of {count} {what}, scaled to {total}" if 0 < count < total else ""


def deviation_summary(rows: Iterable[Row]) -> dict[str, float | str]:
    """Number of rows that compare, and mean and worst of their absolute deviations in percent."""
    found = [100 * abs(row.deviation) for row in rows if row.deviation is not None]
    if not found:
        return {"rows compared": 0}
    return {
        "rows compared": len(found),
        "mean absolute deviation %": round(statistics.fmean(found), 2),
        "worst absolute deviation %": round(max(found), 2),
    }
