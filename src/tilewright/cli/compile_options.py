"""The options of `tilewright compile` that say what to do beyond choosing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.output import UsageProblem

if TYPE_CHECKING:
    from tilewright.compiler.settings import Check


@dataclass(frozen=True)
class CompileOptions:
    """What to do beyond choosing."""

    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for code and results.")
    ] = None
    top: Annotated[
        int,
        typer.Option(
            min=0, max=10_000, help="Simulate or measure the K best and take the fastest."
        ),
    ] = 0
    measure: Annotated[
        bool, typer.Option(help="Time the chosen code, where the machine is this computer.")
    ] = True
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Run the generated code of an operator or of every layer on the host; compare a "
            "whole network with the reference.",
        ),
    ] = False
    check_each_algorithm: Annotated[
        bool,
        typer.Option(
            "--check-each-algorithm",
            help="Run the code of each algorithm, on the smallest layer it applies to; of one that "
            "did not win there, with fewer images where all would take long.",
        ),
    ] = False
    schedule: Annotated[
        Path | None,
        typer.Option(help="Replay the schedule in this file: a kernel's schedule.txt."),
    ] = None
    layers: Annotated[
        bool,
        typer.Option(
            "--layers",
            help="The convolutions and matrix products of a network, each tuned alone as a kernel.",
        ),
    ] = False
    onnx_out: Annotated[
        Path | None,
        typer.Option(
            help="ONNX file for a network divided over cores, with the plan in its metadata."
        ),
    ] = None
    timings: Annotated[bool, typer.Option("--timings", help="Say how long each stage took.")] = (
        False
    )

    def require_undivided(self) -> None:
        """Raise UsageProblem for what only networks divided over cores take."""
        if self.onnx_out is not None:
            raise UsageProblem("--onnx-out is for networks on machines whose cores divide them")

    @property
    def which(self) -> Check:
        """Which code to run."""
        if self.check and self.check_each_algorithm:
            raise UsageProblem("--check already checks every layer: leave --check-each-algorithm")
        if self.check:
            return "each layer"
        return "each algorithm" if self.check_each_algorithm else "none"
