"""`tilewright calibrate MACHINE`: measure the computer at hand and keep its description."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.output import OutputOptions


def calibrate_command(
    output: OutputOptions,
    machine: Annotated[
        str | None, typer.Argument(help="A machine that is at hand; the only one without it.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", help="File of the description.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Fewer and shorter samples.")] = False,
) -> None:
    """Measure this computer and write a machine description with its numbers."""
    from tilewright.cli.calibrate_machine import calibrate_machine  # brings NumPy

    calibrate_machine(machine, file, output, quick=quick)
