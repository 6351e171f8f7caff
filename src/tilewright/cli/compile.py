"""`tilewright compile`: choose, generate, check and report, for an operator or a network."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from msgspec import structs

from tilewright.cli.options import MachineOptions, OperatorOptions, SearchOptions
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar
from tilewright.cli.run_network import write_network
from tilewright.cli.workload import Workload, read_workload
from tilewright.compiler.artifact import require_replaceable
from tilewright.compiler.kernel import CompiledNetwork
from tilewright.compiler.pipeline import Check, Settings, compile_layers
from tilewright.machine import Machine
from tilewright.report.table import layer_table, totals
from tilewright.report.view import NetworkResult
from tilewright.targets.base import NativeTarget
from tilewright.targets.registry import find_target
from tilewright.tune.executors import open_executor
from tilewright.tune.records import Records

WorkloadName = Annotated[
    str,
    typer.Argument(metavar="NETWORK", help="A known network, FILE.onnx, conv2d or gemm."),
]


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
        bool, typer.Option("--check", help="Run the generated code of every layer on the host.")
    ] = False
    check_each_algorithm: Annotated[
        bool,
        typer.Option(
            "--check-each-algorithm",
            help="Run the code of each algorithm, on the smallest layer it applies to.",
        ),
    ] = False
    timings: Annotated[bool, typer.Option("--timings", help="Say how long each stage took.")] = (
        False
    )

    @property
    def which(self) -> Check:
        """Which code to run."""
        if self.check and self.check_each_algorithm:
            raise UsageProblem("--check already checks every layer: leave --check-each-algorithm")
        if self.check:
            return "each layer"
        return "each algorithm" if self.check_each_algorithm else "none"


def compile_command(
    network: WorkloadName,
    machine: MachineOptions,
    operator: OperatorOptions,
    search: SearchOptions,
    options: CompileOptions,
    output: OutputOptions,
) -> None:
    """Choose the best schedule of every layer; generate, time and report its code."""
    target, check = machine.load(), options.which
    native = isinstance(find_target(target.target), NativeTarget)
    if native and network not in ("conv2d", "gemm"):
        write_network(
            network,
            target,
            operator,
            search,
            output,
            options.out,
            options.top,
            measure=options.measure,
            check=check != "none",
        )
        return
    workload = read_workload(network, operator)
    if options.out is not None:
        require_replaceable(options.out)
    measure = options.measure
    compiled = searched(workload, target, search, options.top, output, check, measure=measure)
    written = _write(workload, compiled, options.out)
    show_result(written, target, output, timings=options.timings)
    if options.out is not None:
        output.show(f"written to {options.out}")


def searched(
    workload: Workload,
    machine: Machine,
    search: SearchOptions,
    top: int,
    output: OutputOptions,
    check: Check = "none",
    keep: int = 4,
    *,
    measure: bool = True,
) -> CompiledNetwork:
    """Compile with the records and the executor that the options name."""
    with ExitStack() as stack:
        progress = stack.enter_context(progress_bar(output))
        records = stack.enter_context(Records(search.records)) if search.records else None
        executor = stack.enter_context(open_executor(search.executor))
        settings = Settings(
            algorithm=search.algorithm,
            partition=search.partition,
            max_error=search.max_error,
            keep=keep,
            top=top,
            records=records,
            executor=executor,
            progress=progress,
            check=check,
            measure=measure,
        )
        return compile_layers(workload.name, workload.layers, machine, settings)


def _write(workload: Workload, compiled: CompiledNetwork, out: Path | None) -> NetworkResult:
    """Write what was asked for; the result names the folders."""
    if out is None:
        return compiled.result()
    if not workload.is_operator:
        compiled.write(out)
        return compiled.result(out)
    (kernel,) = compiled.kernels.values()
    kernel.write(out)
    result = compiled.result()
    layers = tuple(structs.replace(layer, artifact=str(out)) for layer in result.layers)
    return structs.replace(result, layers=layers)


def show_result(
    result: NetworkResult, machine: Machine, output: OutputOptions, *, timings: bool = False
) -> None:
    """The table, the totals, the checks; or the JSON contract."""
    output.value(result)
    output.show(
        layer_table(result, machine.clock_hz, schedules=output.is_wide),
        totals(result, machine.peak_flops_of(result.dtype)),
    )
    for check in result.checks:
        output.show(f"{check.algorithm}: code of {check.name} ({check.shape}) is {check.check}")
    if timings:
        for stage, seconds in result.timings.items():
            output.show(f"{stage:12} {seconds:8.3f} s")
