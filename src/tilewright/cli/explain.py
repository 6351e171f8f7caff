"""`tilewright explain`: where the time of written code goes, what bounds it, what would help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from tilewright.cli.division_options import DivisionOptions
from tilewright.cli.options import OperatorOptions, OwnMachineOptions, SearchOptions
from tilewright.cli.output import OutputOptions

Subject = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT", help="A folder of `compile -o`, or what `compile` takes: it is tuned."
    ),
]


@dataclass(frozen=True)
class ExplainOptions:
    """What of it is explained, and how far."""

    layer: Annotated[
        str | None, typer.Option(help="One layer or stage of a network, not the whole.")
    ] = None
    changes: Annotated[
        bool, typer.Option(help="Simulate changed machines to see what would help.")
    ] = True
    levels: Annotated[
        bool,
        typer.Option(
            "--roofline", help="Bandwidth required and available at each level of the memories."
        ),
    ] = False


def explain_command(
    subject: Subject,
    machine: OwnMachineOptions,
    operator: OperatorOptions,
    search: SearchOptions,
    output: OutputOptions,
    options: ExplainOptions,
    division: DivisionOptions,
) -> None:
    """Explain the time of an operator, of a whole network, or of one layer of it."""
    from tilewright.cli.explain_subject import explain_subject  # heavy: numba

    explain_subject(subject, machine, operator, search, options, division, output)
