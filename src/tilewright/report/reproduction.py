"""Results of a paper's experiment: the values of the `--json` contract, and their table.

name              published  ours    deviation  verdict  kind    note
get of 128 bytes      17.25  17.51      +1.5 %  fitted   fitted

In: a `Result`. Out: a table, and lines of text below it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from msgspec import Struct
from rich.table import Table

from tilewright.report.table import plain_table

Kind = Literal["model", "simulated", "measured", "exact", "published", "fitted"]
"""Source of `ours`: the analytic model, the simulator, a clock (a run on hardware at hand), or a
count or text that follows exactly. "published" restates a printed number; "fitted" numbers have an
input derived from the published one."""

Verdict = Literal["as printed", "within a printed limit", "slip", "off", "fitted"]
"""Outcome for a printed number. A slip is other arithmetic that yields its whole column."""


class Row(Struct, frozen=True):
    """One number. `deviation` is ours / published - 1; None where either is missing or 0.

    `verdict` is None where no paper prints the number, or we have none.
    """

    name: str
    published: float | None
    ours: float | None
    deviation: float | None
    kind: Kind
    note: str = ""
    unit: str = ""
    verdict: Verdict | None = None


class Result(Struct, frozen=True):
    """One table or figure of a paper, reproduced."""

    paper: str
    experiment: str
    title: str
    rows: tuple[Row, ...]
    summary: dict[str, float | str]
    notes: tuple[str, ...] = ()


def reproduction_table(result: Result) -> Table:
    """One line per row; the unit follows the name."""
    table = plain_table(f"{result.paper}/{result.experiment}: {result.title}")
    noted, judged = (any(getattr(row, of) for row in result.rows) for of in ("note", "verdict"))
    table.add_column("name", overflow="fold")
    for column in ("published", "ours", "deviation"):
        table.add_column(column, justify="right", min_width=9)
    if judged:
        table.add_column("verdict")
    table.add_column("kind", min_width=9)
    if noted:
        table.add_column("note", overflow="fold", max_width=60)
    for row in result.rows:
        name = f"{row.name} [{row.unit}]" if row.unit else row.name
        numbers = (number_text(row.published), number_text(row.ours), _percent(row.deviation))
        verdict = [verdict_text(row)] if judged else []
        table.add_row(name, *numbers, *verdict, row.kind, *([row.note] if noted else []))
    return table


def reproduction_notes(result: Result) -> Iterator[str]:
    """The summary, then the notes, one line each."""
    for key, value in result.summary.items():
        yield f"{key}: {value if isinstance(value, str) else number_text(value)}"
    yield from (f"note: {note}" for note in result.notes)


def verdict_table(results: Iterable[Result]) -> Table:
    """Printed numbers of each table by verdict, then the totals."""
    title, totals = "printed numbers by what became of them", Counter[str]()
    table = plain_table(title, ("table",))
    for verdict in get_args(Verdict):
        table.add_column(verdict, justify="right")
    for result in results:
        if found := verdict_counts(result.rows):
            totals.update(found)
            table.add_row(f"{result.paper}/{result.experiment}", *map(str, found.values()))
    table.add_row("all", *(str(totals[verdict]) for verdict in get_args(Verdict)))
    return table


def verdict_counts(rows: Iterable[Row]) -> dict[str, int]:
    """Numbers of rows by verdict; empty where nothing is judged."""
    found = Counter(row.verdict for row in rows if row.verdict is not None)
    return {verdict: found[verdict] for verdict in get_args(Verdict)} if found else {}


def verdict_text(row: Row) -> str:
    """The verdict, with the difference for a row that is off; empty for None."""
    if row.verdict != "off":
        return row.verdict or ""
    assert row.ours is not None
    assert row.published is not None
    return f"off by {row.ours - row.published:+.3g}"


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
