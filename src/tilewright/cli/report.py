"""`tilewright report`: what was compiled, written down as a page or a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from tilewright.cli.output import OutputOptions
from tilewright.codegen.folder import write_text
from tilewright.common.errors import ToolError
from tilewright.compiler.artifact import read_compiled
from tilewright.report.discovery import load_report, report_titles


class ReportResult(Struct, frozen=True):
    """The `--json` form of `report`; `written` is the file."""

    report: str
    layers: int
    written: str


def report_command(
    output: OutputOptions,
    folder: Annotated[Path, typer.Argument(help="A folder of `compile -o`.")],
    kind: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Which report: `page`, or another one.")
    ] = "page",
    to: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file to write; report.* in the folder if not given."
        ),
    ] = None,
) -> None:
    """Write a report of what `compile -o` wrote: one HTML page, or a table."""
    known = report_titles()
    if kind not in known:
        raise ToolError(f"there is no report {kind!r}", fix=f"the reports are {', '.join(known)}")
    report, compiled = load_report(kind), read_compiled(folder)
    path = to or folder / f"report{report.suffix}"
    write_text(path, report.text(compiled))
    output.value(ReportResult(kind, len(compiled.layers), str(path)))
    output.show(f"written to {path}")
