"""Printed numbers beside those of the formulas, to the printed digit.

In: a table of printed numbers as text, our numbers by the same names, and for numbers that the
formulas do not give the readings that do: what the table was computed with instead. Out: a
`Result` whose notes say which reading gives a printed number, or that none does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from msgspec import Struct

from tilewright.papers.lab import Lab
from tilewright.papers.model import ExperimentError, Kind, Result, Row, compare
from tilewright.papers.published import read_published

PAPER = "cns1"


class Printed(Struct, frozen=True):
    """One number as the report prints it; a limit is given with < or >."""

    name: str
    value: str
    relation: str = "="


@dataclass(frozen=True)
class Reading:
    """Another way to arithmetic that gives, or comes near to, a printed number: `text` says how."""

    text: str
    value: float


Readings = Mapping[str, Sequence[Reading]]


def printed_numbers(experiment: str) -> dict[str, str]:
    """The printed numbers of a table by name, as they are printed."""
    return {row.name: row.value for row in read_published(PAPER, experiment, Printed).rows}


def printed_most(experiment: str, ending: str) -> float:
    """The largest printed number of a table whose name ends so."""
    numbers = printed_numbers(experiment)
    return max(float(value) for name, value in numbers.items() if name.endswith(ending))


def prints_as(value: float, printed: Printed, rounding: str = ROUND_HALF_UP) -> bool:
    """Whether a number agrees with the printed one: rounded to its digits, or within its limit."""
    wanted = Decimal(printed.value)
    exact = Decimal(repr(round(value, 9)))
    match printed.relation:
        case "<":
            return exact < wanted
        case ">":
            return exact > wanted
        case _:
            return exact.quantize(wanted, rounding) == wanted


def reproduced(
    lab: Lab,
    experiment: str,
    title: str,
    ours: Mapping[str, float],
    readings: Readings | None = None,
    *,
    kind: Kind = "model",
    notes: Sequence[str] = (),
    beside: Sequence[Row] = (),
) -> Result:
    """The rows of one table, and those that stand `beside` it.

    Raises ExperimentError for a printed number without a counterpart, or the other way round.
    """
    table = lab.published(PAPER, experiment, Printed)
    names = [row.name for row in table.rows]
    if lab.rows is None and sorted(names) != sorted(ours):
        odd = sorted(set(names) ^ set(ours))
        raise ExperimentError(f"rows without a counterpart: {', '.join(odd)}", where=experiment)
    found = [
        _row(printed, ours[printed.name], (readings or {}).get(printed.name, ()), kind)
        for printed in table.rows
        if printed.name in ours
    ]
    return Result(
        paper=PAPER,
        experiment=experiment,
        title=title,
        rows=(*found, *beside),
        summary=_summary(table.rows, found),
        notes=(f"published: {table.source}", *notes),
    )


def _row(printed: Printed, ours: float, readings: Sequence[Reading], kind: Kind) -> Row:
    bound = {"<": "printed as an upper limit", ">": "printed as a lower limit"}
    note = bound.get(printed.relation, "")
    if not prints_as(ours, printed):
        found = (Reading("the formula", ours), *readings)
        note = "; ".join(filter(None, (note, _slip(printed, found))))
    return compare(printed.name, float(printed.value), ours, kind, note=note)


def _slip(printed: Printed, readings: Sequence[Reading]) -> str:
    for reading in readings:
        if prints_as(reading.value, printed):
            return f"slip: {reading.text} gives {_shown(reading.value)}"
    for reading in readings:
        if prints_as(reading.value, printed, ROUND_DOWN):
            return f"slip: cut and not rounded, {reading.text} gives {_shown(reading.value)}"
    nearest = min(readings, key=lambda reading: abs(reading.value - float(printed.value)))
    return f"no reading gives it; the nearest is {nearest.text}: {_shown(nearest.value)}"


def _shown(value: float) -> str:
    return f"{value:.10g}" if float(value).is_integer() else f"{value:.5g}"


def _summary(table: Sequence[Printed], rows: Sequence[Row]) -> dict[str, float | str]:
    slips = sum("slip: " in row.note for row in rows)
    open_ = sum("no reading" in row.note for row in rows)
    return {
        "rows": len(rows),
        "as printed": len(rows) - slips - open_,
        "slips with the arithmetic that prints them": slips,
        "given by no reading": open_,
    }
