"""Printed numbers beside those of the formulas, to the printed digit.

In: a table of printed numbers as text, our numbers by the same names, and for a column that the
formulas do not give the other arithmetic that gives all of it. Out: a `Result` whose rows are as
printed, slips of their column, or off by a difference. Numbers that an input of ours was derived
from are no evidence: they are counted apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal, get_args

from msgspec import Struct

from tilewright.papers.lab import Lab
from tilewright.papers.model import ExperimentError, Findings, Kind, Row, compare
from tilewright.papers.published import read_published

PAPER = "cns1"
LEAST_CELLS = 4
"""Numbers of a column that other arithmetic has to give: fewer are given by chance."""

Verdict = Literal["as printed", "within a printed limit", "slip", "off", "fitted"]


class Printed(Struct, frozen=True):
    """One number as the report prints it; a limit is given with < or >.

    Numbers of one `column` stand or fall with one reading. `fitted` names the input of ours that
    was derived from this number, or the text that it is taken from.
    """

    name: str
    value: str
    relation: Literal["=", "<", ">"] = "="
    column: str = ""
    fitted: str = ""


@dataclass(frozen=True)
class Reading:
    """Other arithmetic for every number of a column, by name: `text` says it once for all."""

    text: str
    values: Mapping[str, float]


Readings = Mapping[str, Reading]
"""The reading of each column."""


def printed_numbers(experiment: str, column: str = "") -> dict[str, float]:
    """The printed numbers of a table, or of one column of it, by name."""
    rows = read_published(PAPER, experiment, Printed).rows
    return {row.name: float(row.value) for row in rows if column in ("", row.column)}


def prints_as(value: float, printed: Printed) -> bool:
    """True if a number agrees with the printed one: rounded to its digits, or within its limit."""
    wanted = Decimal(printed.value)
    exact = Decimal(repr(round(value, 9)))
    match printed.relation:
        case "<":
            return exact < wanted
        case ">":
            return exact > wanted
        case "=":
            return exact.quantize(wanted, ROUND_HALF_UP) == wanted


def verdicts(
    table: Sequence[Printed], ours: Mapping[str, float], readings: Readings
) -> list[Verdict]:
    """The verdict on each printed number. A reading gives all numbers of its column or none."""
    given = {column for column, reading in readings.items() if _gives(reading, column, table)}
    return [_verdict(printed, ours[printed.name], printed.column in given) for printed in table]


def _gives(reading: Reading, column: str, table: Sequence[Printed]) -> bool:
    cells = [printed for printed in table if printed.column == column]
    return len(cells) >= LEAST_CELLS and all(
        printed.name in reading.values and prints_as(reading.values[printed.name], printed)
        for printed in cells
    )


def _verdict(printed: Printed, ours: float, given: bool) -> Verdict:
    if printed.fitted:
        return "fitted"
    if prints_as(ours, printed):
        return "as printed" if printed.relation == "=" else "within a printed limit"
    return "slip" if given else "off"


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
    found = verdicts(compared, ours, readings)
    rows = [
        _row(printed, ours[printed.name], verdict, readings.get(printed.column), kind)
        for printed, verdict in zip(compared, found, strict=True)
    ]
    counts = Counter(found)
    return Findings(
        rows=(*rows, *beside),
        summary={"rows": len(rows), **{verdict: counts[verdict] for verdict in get_args(Verdict)}},
        notes=(f"published: {table.source}", *notes),
    )


def _require_counterparts(
    experiment: str, table: Sequence[Printed], ours: Mapping[str, float], readings: Readings
) -> None:
    odd = {printed.name for printed in table} ^ set(ours)
    for column, reading in readings.items():
        odd |= {p.name for p in table if p.column == column} ^ set(reading.values)
    if odd:
        message = f"rows without a counterpart: {', '.join(sorted(odd))}"
        raise ExperimentError(message, where=experiment)


def _row(
    printed: Printed, ours: float, verdict: Verdict, reading: Reading | None, kind: Kind
) -> Row:
    published = float(printed.value)
    bound = {"<": "printed as an upper limit", ">": "printed as a lower limit", "=": ""}
    said = ""
    match verdict:
        case "slip":
            assert reading is not None, printed.name
            said = f"slip: {reading.text} gives {_shown(reading.values[printed.name])}"
        case "off":
            said = f"off by {ours - published:+.3g}"
        case "fitted":
            kind, said = "fitted", f"fitted: {printed.fitted}"
        case _:
            pass
    note = "; ".join(filter(None, (bound[printed.relation], said)))
    return compare(printed.name, published, ours, kind, note=note)


def _shown(value: float) -> str:
    return f"{value:.10g}" if float(value).is_integer() else f"{value:.5g}"
