"""`tilewright report`: what was compiled, written down as a page or a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.output import OutputOptions


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
    from tilewright.cli.report_folder import report_folder  # heavy: numba

    report_folder(folder, kind, to, output)
