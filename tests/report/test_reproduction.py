"""The table of an experiment."""

import re

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from tilewright.report.reproduction import (
    Result,
    Row,
    reproduction_notes,
    reproduction_table,
    verdict_table,
)

RESULT = Result(
    paper="paper",
    experiment="table1",
    title="what it is",
    rows=(
        Row("first", 4.0, 5.0, 0.25, "simulated", unit="Gflop/s", verdict="off"),
        Row("[second]", None, 26.0, None, "exact", note="not printed in the paper"),
        Row("third", 1640.04, None, None, "published"),
    ),
    summary={"rows compared": 1, "why": "a word"},
    notes=("about all",),
)


def printed(table: Table) -> list[str]:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table, markup=False)
    lines = [re.sub(r"\s+", " ", line).strip() for line in capture.get().splitlines()]
    return [line for line in lines if line and "─" not in line]


def test_one_line_per_row_with_what_kind_of_number_it_is():
    assert printed(reproduction_table(RESULT)) == [
        "paper/table1: what it is",
        "name published ours deviation verdict kind note",
        "first [Gflop/s] 4 5 +25.0 % off by +1 simulated",
        "[second] 26 exact not printed in the paper",
        "third 1640.0 published",
    ]


def test_printed_numbers_are_counted_by_table():
    """A table that prints none has no line."""
    slip = Row("s", 4.0, 5.0, 0.25, "model", verdict="slip")
    other = replace(RESULT, experiment="table2", rows=(*RESULT.rows, slip, slip))
    empty = replace(RESULT, experiment="table3", rows=RESULT.rows[1:])
    assert printed(verdict_table([RESULT, other, empty])) == [
        "printed numbers by what became of them",
        "table as printed within a printed limit slip off fitted",
        "paper/table1 0 0 0 1 0",
        "paper/table2 0 0 2 1 0",
        "all 0 0 2 2 0",
    ]


def test_summary_then_notes():
    assert list(reproduction_notes(RESULT)) == [
        "rows compared: 1",
        "why: a word",
        "note: about all",
    ]
