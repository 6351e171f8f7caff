"""`tilewright debug`: a program one instruction at a time, by commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import DATA_HELP
from tilewright.cli.output import OutputOptions


def debug_command(
    source: Annotated[Path, typer.Argument(help="Assembly text or an object.")],
    output: OutputOptions,
    machine: Annotated[
        str | None, typer.Option("--machine", "-m", help="Else that of the file's language.")
    ] = None,
    set: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a number.")
    ] = None,
    inputs: Annotated[Path | None, typer.Option("--input", help=DATA_HELP)] = None,
    commands: Annotated[
        str | None, typer.Option(help="Commands between semicolons, in place of the terminal's.")
    ] = None,
) -> None:
    """Step through a program; `help` lists the commands."""
    from tilewright.cli.debug_session import debug  # heavy: numba

    debug(source, machine, set or [], inputs, commands, output)
