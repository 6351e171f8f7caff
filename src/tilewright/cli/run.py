"""`tilewright run`: compile for this computer, run, judge and time; networks in `run_network`,
operators in `run_operator`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import HostMachineOptions, OperatorOptions, SearchOptions
from tilewright.cli.output import OutputOptions, UsageProblem
from tilewright.cli.run_network import CompareOptions, run_network
from tilewright.cli.workload import is_operator
from tilewright.codegen.artifact import EMITS, LOADS
from tilewright.network.plans import NETWORKS
from tilewright.partition.capability import DIVIDES


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
    inputs: Annotated[
        Path | None,
        typer.Option("--input", help="File .npz with an array per operand or input; random else."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="File .npz for the result.")
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, max=10_000, help="Measure the K best and take the fastest.")
    ] = 0,
) -> None:
    """Run an operator or a network on this computer, compare it, and time it."""
    target = machine.load()
    files = (inputs, out)
    if not is_operator(workload_name):
        if DIVIDES.of(target) is not None:
            from tilewright.cli.divide import run_divided  # heavy: numba

            other = compare.other
            run_divided(workload_name, target, operator, search, other, output, files, top)
            return
        NETWORKS.required(target)
        run_network(workload_name, machine, operator, search, compare, output, files, top)
        return
    compiling = "compile --check on this machine" if EMITS.of(target) else ""
    LOADS.required(target, compiling)
    if compare.compare:
        raise UsageProblem("--compare is for networks; operators are compared with the reference")
    from tilewright.cli.run_operator import run_operator  # heavy: numba

    run_operator(workload_name, target, operator, search, output, files, top)
