"""`tilewright tune`: search by the model or by simulating, with the best candidates shown."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.compile import WorkloadName
from tilewright.cli.options import MachineOptions, OperatorOptions, SearchOptions
from tilewright.cli.output import OutputOptions


class Method(StrEnum):
    """Who judges candidates: the model, or the simulator alone."""

    MODEL = "model"
    SIMULATE = "simulate"


def tune_command(
    network: WorkloadName,
    machine: MachineOptions,
    operator: OperatorOptions,
    search: SearchOptions,
    output: OutputOptions,
    method: Annotated[
        Method,
        typer.Option(
            help="Rank by the model, or simulate (measure on this computer) all as a black box."
        ),
    ] = Method.MODEL,
    top: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Simulate or measure the K best by the model "
            "(default: 0 with model, all with simulate).",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for code and results.")
    ] = None,
) -> None:
    """Search the schedules of every layer, and show the best ones."""
    from tilewright.cli.tune_workload import tune_workload  # heavy: numba

    black_box = method is Method.SIMULATE
    tune_workload(network, machine, operator, search, output, top, out, black_box=black_box)
