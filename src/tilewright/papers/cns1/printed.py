"""The report's printed numbers beside those of the formulas, table by table.

In: a table of printed numbers as text, our numbers by the same names, and readings of columns. Out:
rows as printed, slips of their column, or off by a difference (`papers.readings`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.papers.lab import Lab
from tilewright.papers.model import ExperimentError, Findings, Kind, Row
from tilewright.papers.published import read_published
from tilewright.papers.readings import Printed, Readings, judged_rows

PAPER = "cns1"


def printed_numbers(experiment: str, column: str = "") -> dict[str, float]:
    """The printed numbers of a table, or of one column of it, by name."""
    rows = read_published(PAPER, experiment, Printed).rows
    return {row.name: float(row.value) for row in rows if column in ("", row.column)}


def reproduced(
    lab: Lab,
    experiment: str,
    ours: Mapping[str, float],
    readings: Readings | None = None,
    *,
    kind: Kind = "model",
    notes: Sequence[str] = (),
    beside: Sequence[Row] = (),
) -> Findings:
    """The rows of one table, and those that stand `beside` it.

    Raises ExperimentError for a printed number without a counterpart, or the other way round.
    """
    table, readings = lab.published(PAPER, experiment, Printed), readings or {}
    if lab.rows is None:
        _require_counterparts(experiment, table.rows, ours, readings)
    compared = [printed for printed in table.rows if printed.name in ours]
    rows = judged_rows(compared, ours, readings, kind)
    notes = (f"published: {table.source}", *notes)
    return Findings((*rows, *beside), {"rows": len(rows)}, notes)


def _require_counterparts(
    experiment: str, table: Sequence[Printed], ours: Mapping[str, float], readings: Readings
) -> None:
    odd = {printed.name for printed in table} ^ set(ours)
    for column, reading in readings.items():
        odd |= {p.name for p in table if p.column == column} ^ set(reading.values)
    if odd:
        message = f"rows without a counterpart: {', '.join(sorted(odd))}"
        raise ExperimentError(message, where=experiment)
