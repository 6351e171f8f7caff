"""`tilewright reproduce`: the tables and figures of the papers, published numbers beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.output import OutputOptions

RECORDS = "records.sqlite"
"""The file in the results' folder that remembers them."""
_QUICK = "A small subset of the cases; rows say of how many cases they are."
_ROWS = (
    "Your rows in the place of the published ones. Columns of swdnn/measured: batch (B), "
    "in_channels (Ni), out_channels (No), stride, output (Ro), gflops; those of another experiment "
    "are named where one is missing."
)


@dataclass(frozen=True)
class ReproduceOptions:
    """Which experiments, on which rows, and where the results are written."""

    experiment: Annotated[
        str | None,
        typer.Argument(metavar="PAPER[/EXPERIMENT]", help="All are listed if not given."),
    ] = None
    all: Annotated[bool, typer.Option("--all", help="All, or all of a paper.")] = False
    quick: Annotated[bool, typer.Option("--quick", help=_QUICK)] = False
    rows: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help=_ROWS),
    ] = None
    directory: Annotated[
        Path, typer.Option("-o", metavar="DIR", help="Where figures, CSV and JSON are written.")
    ] = Path("out/reproduce")
    records: Annotated[
        Path | None, typer.Option(help=f"File that remembers results (default DIR/{RECORDS}).")
    ] = None
    jobs: Annotated[int, typer.Option(min=1, max=999, help="Worker processes.")] = 2
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A word for the experiment.")
    ] = None


def reproduce_command(output: OutputOptions, options: ReproduceOptions) -> None:
    """Print published numbers, ours and the deviation; write figures, CSV and JSON."""
    from tilewright.cli.reproduce_papers import reproduce_papers  # heavy: NumPy

    reproduce_papers(options, output)
