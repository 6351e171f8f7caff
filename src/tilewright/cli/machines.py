"""`tilewright machines`: the known machines, or every number of one with its source."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.output import OutputOptions


def machines_command(
    output: OutputOptions,
    name: Annotated[
        str | None, typer.Argument(help="A machine's name, or a .toml file; all if not given.")
    ] = None,
    set: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a number.")
    ] = None,
) -> None:
    """List the machines, or show one with the source of each number."""
    from tilewright.cli.machine_listing import show_machines  # brings NumPy

    show_machines(name, set, output)
