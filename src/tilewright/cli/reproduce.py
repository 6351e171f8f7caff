"""`tilewright reproduce`: the tables and figures of the papers, published numbers beside ours."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tilewright.cli.options import overrides
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.papers.discovery import Experiment, load_experiment, select, titles
from tilewright.papers.lab import Lab, ResultRecords
from tilewright.papers.model import Result, Row
from tilewright.report.reproduction import reproduction_notes, reproduction_table
from tilewright.report.table import plain_table
from tilewright.tune.executors import open_executor

_RECORDS = "records.sqlite"
_QUICK = "A small subset of the cases; rows that count cases say of how many they are scaled up."
_ROWS = (
    "Your rows in the place of the published ones. Columns of swdnn/measured: batch (B), "
    "in_channels (Ni), out_channels (No), stride, output (Ro), gflops; those of another experiment "
    "are named where one is missing."
)


def reproduce_command(
    output: OutputOptions,
    experiment: Annotated[
        str | None,
        typer.Argument(metavar="PAPER[/EXPERIMENT]", help="All are listed if not given."),
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="All, or all of a paper.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help=_QUICK)] = False,
    rows: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help=_ROWS),
    ] = None,
    directory: Annotated[
        Path, typer.Option("-o", metavar="DIR", help="Where figures, CSV and JSON are written.")
    ] = Path("out/reproduce"),
    records: Annotated[
        Path | None, typer.Option(help=f"File that remembers results (default DIR/{_RECORDS}).")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=999, help="Worker processes.")] = 2,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A word for the experiment.")
    ] = None,
) -> None:
    """Print published numbers, ours and the deviation; write figures, CSV and JSON."""
    names = _wanted(experiment, all, rows)
    if not names:
        _list(output)
        return
    lab = Lab(quick=quick, rows=rows, options=overrides(option, "--option"))
    directory.mkdir(parents=True, exist_ok=True)
    results = []
    with _running(lab, records or directory / _RECORDS, jobs, output) as running:
        for name in names:
            found = load_experiment(name)
            result = found.run(replace(running, experiment=name))
            _write(found, result, directory)
            output.show(reproduction_table(result), *reproduction_notes(result), "")
            results.append(result)
    single = experiment in names
    output.value(results[0] if single else {"results": results})


def _wanted(experiment: str | None, every: bool, rows: Path | None) -> list[str]:
    names = list(titles()) if every else []
    if experiment is not None:
        names = select(experiment)
    if every and experiment in names:
        raise UsageProblem(f"{experiment} is one experiment: leave --all, or name its paper alone")
    if rows is not None and experiment not in names:
        raise UsageProblem("--rows takes the place of one table: name one experiment")
    return names


def _list(output: OutputOptions) -> None:
    known = titles()
    output.value({"experiments": [{"name": n, "title": title} for n, title in known.items()]})
    table = plain_table()
    table.add_column("experiment")
    table.add_column("title", overflow="fold")
    for name, title in known.items():
        table.add_row(name, title)
    output.show(table)


@contextmanager
def _running(lab: Lab, records: Path, jobs: int, output: OutputOptions) -> Iterator[Lab]:
    workers = "inline" if jobs == 1 else f"local:{jobs}"
    with (
        ResultRecords(records) as store,
        open_executor(workers) as executor,
        progress_bar(output) as advance,
    ):
        yield replace(lab, records=store, executor=executor, advance=advance)


def _write(experiment: Experiment, result: Result, directory: Path) -> None:
    """`DIR/PAPER/EXPERIMENT.json`, `.csv` and, where it has a picture, `.svg` and `.png`."""
    stem = directory / experiment.name
    stem.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(result), indent=2)
    stem.with_name(f"{stem.name}.json").write_bytes(text + b"\n")
    with stem.with_name(f"{stem.name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row.__struct_fields__)
        writer.writerows(msgspec.structs.astuple(row) for row in result.rows)
    experiment.save_figure(result, stem)
