"""`tilewright reproduce`: tables and figures of the papers, published numbers beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from tilewright.cli.arguments import RECORDS, Reproduce
from tilewright.cli.options import overrides
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.codegen.folder import write_text
from tilewright.common.json import to_json
from tilewright.papers.discovery import Experiment, load_experiment, select, titles
from tilewright.papers.lab import Lab, ResultRecords
from tilewright.papers.model import Result, Row
from tilewright.report.reproduction import reproduction_notes, reproduction_table, verdict_table
from tilewright.report.table import plain_table
from tilewright.tune.executors import open_executor


def run(asked: Reproduce) -> None:
    """Print published numbers, ours and the deviation; write figures, CSV and JSON."""
    output = asked.output
    names = _chosen_experiments(asked.experiment, asked.all, asked.rows)
    if not names:
        _list(output)
        return
    words, directory = overrides(asked.option, "--option"), asked.directory
    _refuse_unread(words, names)
    lab = Lab(quick=asked.quick, rows=asked.rows, options=words)
    directory.mkdir(parents=True, exist_ok=True)
    results = []
    records = asked.records or directory / RECORDS
    with _running(lab, records, asked.jobs, output) as running:
        for name in names:
            found = load_experiment(name)
            result = found.run(replace(running, experiment=name))
            _write(found, result, directory)
            output.show(reproduction_table(result), *reproduction_notes(result), "")
            results.append(result)
    single = asked.experiment in names
    if not single:
        output.show(verdict_table(results))
    output.value(results[0] if single else {"results": results})


def _chosen_experiments(experiment: str | None, every: bool, rows: Path | None) -> list[str]:
    names = list(titles()) if every else []
    if experiment is not None:
        names = select(experiment)
    if every and experiment in names:
        raise UsageProblem(f"{experiment} is one experiment: leave --all, or name its paper alone")
    if rows is not None and experiment not in names:
        raise UsageProblem("--rows takes the place of one table: name one experiment")
    return names


def _refuse_unread(words: Mapping[str, str], names: Sequence[str]) -> None:
    """Refuse options that the experiments would not read, before anything runs."""
    for name in names if words else ():
        if not load_experiment(name).takes_options:
            raise UsageProblem(f"{name} takes no --option, found {', '.join(words)}")


def _list(output: OutputOptions) -> None:
    known = titles()
    output.value({"experiments": [{"name": n, "title": title} for n, title in known.items()]})
    table = plain_table(heads=("experiment",))
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
    write_text(stem.with_name(f"{stem.name}.json"), f"{to_json(result)}\n")
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(Row.__struct_fields__)
    writer.writerows(msgspec.structs.astuple(row) for row in result.rows)
    write_text(stem.with_name(f"{stem.name}.csv"), table.getvalue())
    experiment.save_figure(result, stem)
