"""Results of experiments: rows of published and own numbers, each with its kind of number."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

from msgspec import Struct

from tilewright.common.errors import TilewrightError
from tilewright.report.reproduction import Kind as Kind
from tilewright.report.reproduction import Result as Result
from tilewright.report.reproduction import Row as Row
from tilewright.report.reproduction import Verdict as Verdict

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
    limits: tuple[float, float] | None = None,
    printed: bool = True,
) -> Row:
    """A row with its deviation and verdict; the `explanation` is for one beyond `WORTH_EXPLAINING`.

    `limits` are those that a paper prints in place of a number. Without `printed` the other number
    is one of ours, too, and nothing is judged.
    """
    deviation = ours / published - 1 if published and ours is not None else None
    if explanation and deviation is not None and abs(deviation) > WORTH_EXPLAINING:
        note = "; ".join(filter(None, (note, explanation)))
    verdict = None
    if printed and published is not None and ours is not None:
        verdict = _verdict(published, ours, kind, limits)
    return Row(name, published, ours, deviation, kind, note, unit, verdict)


def _verdict(
    published: float, ours: float, kind: Kind, limits: tuple[float, float] | None
) -> Verdict | None:
    if kind in ("published", "fitted"):
        return "fitted" if kind == "fitted" else None
    if limits is not None:
        return "within a printed limit" if limits[0] < ours < limits[1] else "off"
    exact = float(published).is_integer()
    digits = Decimal(int(published) if exact else repr(published))
    return "as printed" if ours == published or rounds_to(ours, digits) else "off"


def rounds_to(value: float, printed: Decimal) -> bool:
    """True if a number rounded to the digits of the printed one is that."""
    return Decimal(repr(round(value, 9))).quantize(printed, ROUND_HALF_UP) == printed


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
