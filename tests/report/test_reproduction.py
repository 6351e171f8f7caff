"""The table of an experiment."""

import re

from rich.console import Console

from tilewright.report.reproduction import Result, Row, reproduction_notes, reproduction_table

RESULT = Result(
    paper="paper",
    experiment="table1",
    title="what it is",
    rows=(
        Row("first", 4.0, 5.0, 0.25, "simulated", unit="Gflop/s"),
        Row("[second]", None, 26.0, None, "exact", note="not printed in the paper"),
        Row("third", 1640.04, None, None, "published"),
    ),
    summary={"rows compared": 1, "why": "a word"},
    notes=("about all",),
)


def test_one_line_per_row_with_what_kind_of_number_it_is():
    console = Console(width=120)
    with console.capture() as capture:
        console.print(reproduction_table(RESULT), markup=False)
    lines = [re.sub(r"\s+", " ", line).strip() for line in capture.get().splitlines()]
    assert [line for line in lines if line and "─" not in line] == [
        "paper/table1: what it is",
        "name published ours deviation kind note",
        "first [Gflop/s] 4 5 +25.0 % simulated",
        "[second] 26 exact not printed in the paper",
        "third 1640.0 published",
    ]


def test_summary_then_notes():
    assert list(reproduction_notes(RESULT)) == [
        "rows compared: 1",
        "why: a word",
        "note: about all",
    ]
