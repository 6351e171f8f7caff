"""`tilewright simulate`: run written code or a program's text on the cycle simulator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.division_options import StrategyOptions
from tilewright.cli.options import OperatorOptions
from tilewright.cli.output import OutputOptions, UsageProblem
from tilewright.common.limits import MOST_WINDOW_CYCLES

Subject = Annotated[
    Path,
    typer.Argument(
        metavar="SUBJECT",
        help="A folder of `compile -o`, program text, assembly, a known network or FILE.onnx.",
    ),
]


@dataclass(frozen=True)
class NetworkOptions:
    """What is simulated of a whole network."""

    batch: Annotated[int | None, typer.Option(min=1, help="Images of a network.")] = None
    dtype: Annotated[str | None, typer.Option(help="Element type of a network.")] = None
    unfused: Annotated[
        bool, typer.Option("--unfused", help="A network also with a stage for every operator.")
    ] = False

    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=EXTENTS", help="Shape of an input of a model, as x=1x3x224x224."
        ),
    ] = None

    def undivided(self) -> OperatorOptions:
        """Which network; UsageProblem for what machines do not know whose cores divide it."""
        if self.unfused:
            raise UsageProblem("--unfused is for machines that run a network stage by stage")
        return self.chosen()

    def chosen(self) -> OperatorOptions:
        """Which network."""
        return OperatorOptions(batch=self.batch, dtype=self.dtype, shape=self.shape)


@dataclass(frozen=True)
class SimulateOptions:
    """On which machine, what of it, with which data."""

    machine: Annotated[
        str | None,
        typer.Option("--machine", "-m", help="Instead of the machine it was compiled for."),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a number of --machine."),
    ] = None
    layer: Annotated[str | None, typer.Option(help="Which layer of a network.")] = None
    trace: Annotated[Path | None, typer.Option(help="Write a timeline for ui.perfetto.dev.")] = None
    trace_limit: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Events recorded in detail.")
    ] = 20_000
    inputs: Annotated[
        Path | None, typer.Option("--input", help="An .npz file with the data of a program.")
    ] = None
    outputs: Annotated[
        Path | None, typer.Option("--output", help="Write what the program wrote as .npz.")
    ] = None
    timing: Annotated[
        bool, typer.Option("--timing", help="Count the cycles of a program and compute nothing.")
    ] = False

    max_cycles: Annotated[
        int, typer.Option(min=1, max=10**12, help="Cycles after which a program is given up.")
    ] = MOST_WINDOW_CYCLES

    @property
    def limited(self) -> bool:
        """Whether the cycles of a program are limited as the user says."""
        return self.max_cycles != SimulateOptions.max_cycles

    def for_programs(self) -> list[str]:
        """Those that are given and mean nothing for a network."""
        named = {
            "--layer": self.layer is not None,
            "--trace": self.trace is not None,
            "--trace-limit": self.trace_limit != SimulateOptions.trace_limit,
            "--input": self.inputs is not None,
            "--output": self.outputs is not None,
            "--timing": self.timing,
            "--max-cycles": self.limited,
        }
        return [name for name, is_given in named.items() if is_given]


def simulate_command(
    source: Subject,
    network: NetworkOptions,
    output: OutputOptions,
    options: SimulateOptions,
    division: StrategyOptions,
) -> None:
    """Simulate a core group running a program or network, with a cause for each cycle."""
    from tilewright.cli.simulate_subject import simulate_subject  # heavy: numba

    simulate_subject(source, network, options, division, output)
