"""`tilewright check`: legality before anything runs; every refusal names the way out."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.options import AlgorithmName, OperatorOptions, OwnMachineOptions
from tilewright.cli.output import OutputOptions


def check_command(
    subject: Annotated[
        str,
        typer.Argument(
            help="A network, FILE.onnx, an operator such as conv2d, a written folder or IR text."
        ),
    ],
    machine: OwnMachineOptions,
    operator: OperatorOptions,
    output: OutputOptions,
    algorithm: AlgorithmName = None,
    tile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MEMORY:]m=M,n=N,k=K",
            help="Does a tile of a gemm fit, and what bounds it? On any machine.",
            rich_help_panel="Operator",
        ),
    ] = None,
    layers: Annotated[
        bool,
        typer.Option("--layers", help="Of a network also how each operator is divided alone."),
    ] = False,
) -> None:
    """Check that operators fit a machine, or that a program is legal on it."""
    from tilewright.cli.check_subject import check_subject  # heavy: numba

    check_subject(subject, machine, operator, output, algorithm, tile or [], layers)
