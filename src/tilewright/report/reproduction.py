"""Results of a paper's experiment: the values of the `--json` contract, and their table.

name              published  ours    deviation  kind       note
get of 128 bytes      17.25  17.51      +1.5 %  fitted

In: a `Result`. Out: a table, and lines of text below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from rich.table import Table

from tilewright.report.table import plain_table

Kind = Literal["model", "simulated", "measured", "exact", "published", "fitted"]
"""Whose number `ours` is: the analytic model's, the simulator's, a clock's (a run on hardware at
hand), a count or text that follows exactly; "published" where it restates what is printed, "fitted"
where an input of ours was derived from it."""


class Row(Struct, frozen=True):
    """One number. `deviation` is ours / published - 1; None where either is missing or 0."""

    name: str
    published: float | None
    ours: float | None
    deviation: float | None
    kind: Kind
    note: str = ""
    unit: str = ""


class Result(Struct, frozen=True):
    """One table or figure of a paper, reproduced."""

    paper: str
    experiment: str
    title: str
    rows: tuple[Row, ...]
    summary: dict[str, float | str]
    notes: tuple[str, ...] = ()


def reproduction_table(result: Result) -> Table:
    """One line per row; the unit stands with the name."""
    table = plain_table(f"{result.paper}/{result.experiment}: {result.title}")
    noted = any(row.note for row in result.rows)
    table.add_column("name", overflow="fold")
    for column in ("published", "ours", "deviation"):
        table.add_column(column, justify="right", min_width=9)
    table.add_column("kind", min_width=9)
    if noted:
        table.add_column("note", overflow="fold", max_width=60)
    for row in result.rows:
        name = f"{row.name} [{row.unit}]" if row.unit else row.name
        numbers = (number_text(row.published), number_text(row.ours), _percent(row.deviation))
        table.add_row(name, *numbers, row.kind, *([row.note] if noted else []))
    return table


def reproduction_notes(result: Result) -> Iterator[str]:
    """The summary, then the notes, one line each."""
    for key, value in result.summary.items():
        yield f"{key}: {value if isinstance(value, str) else number_text(value)}"
    yield from (f"note: {note}" for note in result.notes)


def number_text(value: float | None) -> str:
    """Four significant digits, whole numbers whole; empty for None.

    >>> [number_text(v) for v in (None, 26.0, 0.61538, 1234567, 23.2)]
    ['', '26', '0.6154', '1234567', '23.2']
    """
    if value is None:
        return ""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:+z.1f} %"
