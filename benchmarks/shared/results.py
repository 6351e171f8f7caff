"""Recorded results: a CSV file whose first lines say what was run, on what and how.

    # title: Whole networks, one thread
    # kind: measured
    # command: python benchmarks/host_networks.py --machine host_avx2
    # processor: AMD EPYC 7003 (Zen 3)
    # machine: host_avx2
    # conditions: batch 1, f32; medians over the rounds, in which contenders take turns in random
    #   order
    # column contender: with the version of the library
    network,contender,time_milliseconds
    resnet50,tilewright,57.9

A benchmark writes such a file with `--csv FILE`. docs/results/ holds them, and `make reference`
makes one page of all. Names of columns include units.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.output import processor

KINDS = ("measured", "simulated", "model", "exact")
"""Sources of numbers: a clock, a simulator, the analytic model, a count that follows exactly."""
FACTS = ("title", "kind", "command", "processor", "machine", "conditions")
OPTIONAL = ("processor", "machine")
_COLUMN, _WIDTH = "column ", 100
_WRAPPED = "#   "


@dataclass(frozen=True)
class Results:
    """One table and the source of its numbers; `kind` is one of `KINDS`, or several with commas."""

    title: str
    kind: str
    command: str
    conditions: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    processor: str = ""
    machine: str = ""
    meanings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in FACTS:
            if name not in OPTIONAL and not getattr(self, name):
                raise ValueError(f"results without {name}")
        if unknown := [kind for kind in self.kind.split(", ") if kind not in KINDS]:
            raise ValueError(f"{unknown[0]!r} is no kind of number: take {', '.join(KINDS)}")
        if "measured" in self.kind and not self.processor:
            raise ValueError("measured results without processor")
        if unknown := [name for name in self.meanings if name not in self.columns]:
            raise ValueError(f"there is no column {unknown[0]!r}")
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise ValueError(f"row {number} has {len(row)} cells of {len(self.columns)}")


def results_text(results: Results) -> str:
    """The text of the file."""
    facts = {name: getattr(results, name) for name in FACTS}
    facts |= {f"{_COLUMN}{name}": text for name, text in results.meanings.items()}
    text = io.StringIO()
    for name, value in facts.items():
        if value:
            lines = textwrap.wrap(f"# {name}: {value}", _WIDTH, subsequent_indent=_WRAPPED)
            text.write("\n".join(lines) + "\n")
    csv.writer(text, lineterminator="\n").writerows((results.columns, *results.rows))
    return text.getvalue()


def parse_results(text: str) -> Results:
    """The results in `text`. Errors: ValueError."""
    head = text[: re.match(r"(#.*\n)*", text).end()]
    facts, meanings = {}, {}
    for line in head.replace(f"\n{_WRAPPED}", " ").splitlines():
        name, _, value = line.removeprefix("# ").partition(": ")
        if name.startswith(_COLUMN):
            meanings[name.removeprefix(_COLUMN)] = value
        elif name in FACTS:
            facts[name] = value
        else:
            raise ValueError(f"{name!r} is no fact of results: take {', '.join(FACTS)}")
    if missing := [name for name in FACTS if name not in (*facts, *OPTIONAL)]:
        raise ValueError(f"results without {missing[0]}")
    columns, *rows = csv.reader(io.StringIO(text.removeprefix(head)))
    return Results(**facts, columns=tuple(columns), rows=tuple(map(tuple, rows)), meanings=meanings)


def add_csv_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--csv FILE`."""
    parser.add_argument("--csv", type=Path, metavar="FILE", help="keep the results as CSV")


def this_command() -> str:
    """The command line of this process, without the option `--csv`."""
    words, names = iter(sys.argv[1:]), []
    for word in words:
        if word == "--csv":
            next(words, None)
        elif not word.startswith("--csv="):
            names.append(word)
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *names])


def write_results(path: Path | None, rows: Sequence[Mapping[str, object]], **facts: Any) -> None:
    """Write `rows`, each keyed by column, if a file is requested.

    `facts` are fields of `Results`; command and processor default to this process's.
    """
    if path is None:
        return
    columns = tuple(rows[0]) if rows else ()
    cells = tuple(tuple(_cell(row[column]) for column in columns) for row in rows)
    own = {"command": this_command(), "processor": processor()}
    path.write_text(
        results_text(Results(**own | facts, columns=columns, rows=cells)), encoding="utf-8"
    )


def _cell(value: object) -> str:
    """Floats in four significant digits, None as an empty cell."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)
