"""Results of experiments: rows of published numbers and ours, each with its kind."""

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
"""Relative distance from a published number beyond which ours needs an explanation."""


class ExperimentError(TilewrightError):
    """An unknown experiment, or an unreadable table of published numbers."""

    code = "experiment"


class Findings(Struct, frozen=True):
    """Rows of one experiment, a summary of numbers, and notes."""

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
    """A row with its deviation and verdict.

    `explanation` is shown beyond `WORTH_EXPLAINING`. `limits` replace a number that a paper prints
    only as a limit. Without `printed`, the other number is also ours, and nothing is judged.
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
    """True if `ours`, rounded to the digits of the printed number, equals it."""
    return Decimal(repr(round(value, 9))).quantize(printed, ROUND_HALF_UP) == printed


def sampled(count: int, total: int, what: str = "cases") -> str:
    """Note for a row on a sample of the cases, as in a quick run; empty for all cases."""
    return f"of {count} of {total} {what}" if count < total else ""


def scaled(count: int, total: int, what: str = "cases") -> str:
    """Note for a count over a sample, scaled up to all cases; empty for all cases."""
    return f"of {count} {what}, scaled to {total}" if 0 < count < total else ""


def deviation_summary(rows: Iterable[Row]) -> dict[str, float | str]:
    """Number of compared rows, with mean and worst absolute deviation in percent."""
    found = [100 * abs(row.deviation) for row in rows if row.deviation is not None]
    if not found:
        return {"rows compared": 0}
    return {
        "rows compared": len(found),
        "mean absolute deviation %": round(statistics.fmean(found), 2),
        "worst absolute deviation %": round(max(found), 2),
    }
