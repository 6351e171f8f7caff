"""`tilewright simulate` of a whole network: every stage on one clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import OperatorOptions
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.cli.workload import read_network
from tilewright.codegen.artifact import LOADS
from tilewright.common.errors import SimulationError
from tilewright.graph.rewriting import simplified
from tilewright.graph.zoo import list_networks
from tilewright.machine import Machine
from tilewright.network.build import build_plan
from tilewright.network.simulate import described, simulate_plan
from tilewright.report.network import plan_table, plan_totals


@dataclass(frozen=True)
class NetworkOptions:
    """What is simulated of a whole network."""

    batch: Annotated[int | None, typer.Option(min=1, help="Images of a network.")] = None
    dtype: Annotated[str | None, typer.Option(help="Element type of a network.")] = None
    unfused: Annotated[
        bool, typer.Option("--unfused", help="A network also with a stage for every operator.")
    ] = False

    def means(self, source: Path, *, alone: bool) -> bool:
        """Whether `source` is a network, and no file of ours or folder.

        Raises UsageProblem where these options are for something else, or others stand beside a
        network that has to be `alone`.
        """
        text = str(source)
        if text.endswith(".onnx") or (text in list_networks() and not source.exists()):
            if not alone:
                raise UsageProblem(f"{source} is a network: leave --layer and --trace")
            return True
        if self != NetworkOptions():
            raise UsageProblem(f"{source} is no network: leave --batch, --dtype and --unfused")
        return False


def simulate_network(
    name: str, machine: Machine, options: NetworkOptions, output: OutputOptions
) -> None:
    """Plan a network, simulate its stages, and say where the time goes."""
    if LOADS.of(machine) is not None:
        raise SimulationError(
            f"machine {machine.name!r} is this computer: it is measured, not simulated",
            fix="tilewright run, or another --machine",
        )
    given = OperatorOptions(batch=options.batch, dtype=options.dtype)
    network = simplified(read_network(name, given))
    started = time.perf_counter()
    with progress_bar(output) as progress:
        plan = build_plan(network, machine, progress=progress)
        seconds = time.perf_counter() - started
        run = simulate_plan(plan, progress=progress)
        other = None
        if options.unfused:
            other = simulate_plan(build_plan(network, machine, fuse=False, progress=progress))
    found = described(run, plan_seconds=seconds, unfused=other)
    output.value(found)
    output.show(plan_table(found), plan_totals(found))
