"""Published numbers: CSV files whose first lines say where the numbers come from.

    # source: swDNN Table II
    size_bytes,get_gb_per_s,put_gb_per_s
    32,4.31,2.56

In: a paper's table by name, or a user's file with the same columns. Out: its rows as frozen structs
of the columns' types, in the order of the file. An empty cell takes the field's default.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from tilewright.common.files import read_file_text
from tilewright.papers.model import ExperimentError

RowT = TypeVar("RowT", bound=Struct)

SYNONYMS = {
    "b": "batch",
    "batch_size": "batch",
    "ci": "in_channels",
    "cin": "in_channels",
    "input_channels": "in_channels",
    "ni": "in_channels",
    "co": "out_channels",
    "cout": "out_channels",
    "no": "out_channels",
    "output_channels": "out_channels",
    "ro": "output",
    "output_size": "output",
    "gflop/s": "gflops",
}
"""Other names of columns, in lower case, as found in papers and logs."""


@dataclass(frozen=True)
class Published(Generic[RowT]):
    """The rows of one table, its source, and the file and line of each row."""

    source: str
    rows: tuple[RowT, ...]
    places: tuple[str, ...] = ()


def read_published(paper: str, name: str, row: type[RowT]) -> Published[RowT]:
    """The table `papers/<paper>/published/<name>.csv`. Raises ExperimentError."""
    path = f"{paper}/published/{name}.csv"
    file = resources.files("tilewright.papers").joinpath(*path.split("/"))
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        raise ExperimentError("there is no such table of published numbers", where=path) from None
    return parse_published(text, row, path)


def read_user_table(path: Path, row: type[RowT]) -> Published[RowT]:
    """A user's file with the columns of `row`. Raises ExperimentError, OSError."""
    try:
        text = read_file_text(path)
    except UnicodeDecodeError as error:
        raise ExperimentError(f"is not UTF-8 text: {error}", where=str(path)) from None
    return parse_published(text, row, str(path), source=path.name)


def parse_published(text: str, row: type[RowT], where: str, *, source: str = "") -> Published[RowT]:
    """The table in `text`; `where` names it in errors. Raises ExperimentError."""
    lines = list(enumerate(text.splitlines(), 1))
    comments = [line[1:].strip() for _, line in lines if line.startswith("#")]
    if comments and comments[0].startswith("source:"):
        source = " ".join(comments).removeprefix("source:").strip()
    if not source:
        raise ExperimentError(
            "does not say where its numbers come from",
            where=where,
            fix="begin the file with a line `# source: ...`",
        )
    data = [(number, line) for number, line in lines if line.strip() and not line.startswith("#")]
    if not data:
        raise ExperimentError("has no line of column names", where=where)
    places = tuple(f"{where}:{number}" for number, _ in data[1:])
    return Published(source, tuple(_rows(data, row, where)), places)


def _column(text: str, known: list[str]) -> str:
    """The column that a heading denotes, ignoring case."""
    name = text.lower().replace(" ", "_")
    name = name if name in known else SYNONYMS.get(name, name)
    return name if name in known else text


def _rows(data: list[tuple[int, str]], row: type[RowT], where: str) -> Iterator[RowT]:
    head, *cells = csv.reader(line for _, line in data)
    known = [field.name for field in msgspec.structs.fields(row)]
    columns = [_column(text.strip(), known) for text in head]
    needed = [field.name for field in msgspec.structs.fields(row) if field.required]
    if not set(needed) <= set(columns) <= set(known) or len(set(columns)) < len(columns):
        raise ExperimentError(
            f"has the columns {', '.join(columns)}",
            where=where,
            fix=f"give the columns {', '.join(known)}",
        )
    for (number, _), values in zip(data[1:], cells, strict=True):
        place = f"{where}:{number}"
        if len(values) != len(columns):
            message = f"has {len(values)} cells where there are {len(columns)} columns"
            raise ExperimentError(message, where=place)
        given = {c: v.strip() for c, v in zip(columns, values, strict=True) if v.strip()}
        try:
            yield msgspec.convert(given, row, strict=False)
        except msgspec.ValidationError as error:
            raise ExperimentError(str(error), where=place) from None
