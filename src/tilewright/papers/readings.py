"""Printed numbers beside ours, to the printed digit, and other arithmetic for whole columns.

In: printed numbers as text, ours by the same names, and, for a column that our formulas do not
match, other arithmetic that matches all of it. Out: rows as printed, slips of their column, or off
by a difference. Numbers from which an input of ours was derived are no evidence: they are fitted.

A reading is stated for a column, not for a number, and must match all of it: changing one number by
one to three of its last digits leaves no slip (the test of the readings does so with each).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from msgspec import Struct, structs

from tilewright.papers.model import Kind, Row, Verdict, compare, rounds_to

LEAST_CELLS = 4
"""Least numbers of a column that other arithmetic must match; fewer could match by chance."""


class Printed(Struct, frozen=True):
    """One number as a paper prints it; a limit starts with < or >.

    Numbers of one `column` are judged by one reading. `fitted` names the input of ours that was
    derived from this number, or the text it comes from.
    """

    name: str
    value: str
    relation: Literal["=", "<", ">"] = "="
    column: str = ""
    fitted: str = ""


@dataclass(frozen=True)
class Reading:
    """Other arithmetic for every number of a column, by name, described once by `text`."""

    text: str
    values: Mapping[str, float]


Readings = Mapping[str, Reading]
"""The reading of each column."""


def prints_as(value: float, printed: Printed) -> bool:
    """True if a number agrees with the printed one: rounded to its digits, or within its limit."""
    wanted = Decimal(printed.value)
    match printed.relation:
        case "<":
            return Decimal(repr(round(value, 9))) < wanted
        case ">":
            return Decimal(repr(round(value, 9))) > wanted
        case "=":
            return rounds_to(value, wanted)


def verdicts(
    table: Sequence[Printed], ours: Mapping[str, float], readings: Readings
) -> list[Verdict]:
    """The verdict on each printed number. A reading matches all numbers of its column, or none."""
    given = {column for column, reading in readings.items() if _gives(reading, column, table)}
    return [_verdict(printed, ours[printed.name], printed.column in given) for printed in table]


def judged_rows(
    table: Sequence[Printed], ours: Mapping[str, float], readings: Readings, kind: Kind
) -> list[Row]:
    """A row for each printed number, with ours beside it."""
    found = verdicts(table, ours, readings)
    return [
        _row(printed, ours[printed.name], verdict, readings.get(printed.column), kind)
        for printed, verdict in zip(table, found, strict=True)
    ]


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


def _row(
    printed: Printed, ours: float, verdict: Verdict, reading: Reading | None, kind: Kind
) -> Row:
    bound = {"<": "printed as an upper limit", ">": "printed as a lower limit", "=": ""}
    said = ""
    if verdict == "slip":
        assert reading is not None, printed.name
        said = f"slip: {reading.text} gives {_shown(reading.values[printed.name])}"
    elif verdict == "fitted":
        kind, said = "fitted", f"fitted: {printed.fitted}"
    note = "; ".join(filter(None, (bound[printed.relation], said)))
    row = compare(printed.name, float(printed.value), ours, kind, note=note)
    return structs.replace(row, verdict=verdict)


def _shown(value: float) -> str:
    return f"{value:.10g}" if float(value).is_integer() else f"{value:.5g}"
