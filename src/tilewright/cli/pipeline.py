"""`tilewright pipeline`: what one core's pipeline does with an assembly file, cycle by cycle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import DATA_HELP, OwnMachineOptions
from tilewright.cli.output import OutputOptions
from tilewright.common.limits import MOST_CORE_CYCLES


@dataclass(frozen=True)
class PipelineOptions:
    """Where the core starts, how long it runs and what is shown of it."""

    entry: Annotated[
        str | None, typer.Option(help="Symbol where the core starts; the first instruction else.")
    ] = None
    timeline: Annotated[
        int, typer.Option(min=1, max=100_000, help="Cycles that the timeline shows.")
    ] = 64
    minimum: Annotated[
        bool, typer.Option("--minimum", help="Prove how few cycles the hottest loop can take.")
    ] = False
    ideal_buses: Annotated[
        bool, typer.Option(help="Gets find a zero at once; without it nobody puts to the core.")
    ] = False
    inputs: Annotated[Path | None, typer.Option("--input", help=DATA_HELP)] = None
    max_cycles: Annotated[
        int, typer.Option(min=1, max=10**12, help="Cycles after which a run is given up.")
    ] = MOST_CORE_CYCLES
    trace: Annotated[Path | None, typer.Option(help="Write a timeline for ui.perfetto.dev.")] = None


def pipeline_command(
    file: Annotated[Path, typer.Argument(help="Assembly text.")],
    machine: OwnMachineOptions,
    output: OutputOptions,
    options: PipelineOptions,
) -> None:
    """Run a program on one core alone; show its pipeline, with a cause for every stall."""
    from tilewright.cli.pipeline_of_core import pipeline_of_core  # heavy: numba

    pipeline_of_core(file, machine, options, output)
