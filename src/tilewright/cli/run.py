"""`tilewright run`: compile for this computer, run, judge and time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.division_options import DivisionOptions
from tilewright.cli.options import HostMachineOptions, OperatorOptions, SearchOptions
from tilewright.cli.output import OutputOptions, UsageProblem

if TYPE_CHECKING:
    from tilewright.network.plans import Other


@dataclass(frozen=True)
class CompareOptions:
    """What a network is compared with."""

    compare: Annotated[
        str | None,
        typer.Option(
            help="Compare a network with onnxruntime, which reads the file itself, or with the "
            "NumPy reference; exit code 3 where they differ."
        ),
    ] = None

    @property
    def other(self) -> Other | None:
        """The one that is meant; UsageProblem for anything else."""
        match self.compare:
            case None | "onnxruntime" | "reference":
                return self.compare
            case _:
                raise UsageProblem(
                    f"--compare takes onnxruntime or reference, found {self.compare!r}"
                )


@dataclass(frozen=True)
class RunOptions:
    """On which data, and how many candidates are measured."""

    inputs: Annotated[
        Path | None,
        typer.Option("--input", help="File .npz with an array per operand or input; random else."),
    ] = None
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="File .npz for the result.")
    ] = None
    top: Annotated[
        int, typer.Option(min=0, max=10_000, help="Measure the K best and take the fastest.")
    ] = 0

    @property
    def files(self) -> tuple[Path | None, Path | None]:
        """That of the inputs, and that for the outputs."""
        return self.inputs, self.out


def run_command(
    workload_name: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD", help="An operator such as conv2d, a known network or FILE.onnx."
        ),
    ],
    machine: HostMachineOptions,
    operator: OperatorOptions,
    search: SearchOptions,
    compare: CompareOptions,
    output: OutputOptions,
    options: RunOptions,
    division: DivisionOptions,
) -> None:
    """Run an operator or a network on this computer, compare it, and time it."""
    from tilewright.cli.run_subject import run_subject  # heavy: NumPy

    run_subject(workload_name, machine, operator, search, compare, options, division, output)
