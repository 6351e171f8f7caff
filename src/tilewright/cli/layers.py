"""Layers that become kernels of their own: the search, the folder, the table."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from msgspec import structs

from tilewright.cli.options import SearchOptions
from tilewright.cli.output import OutputOptions, progress_bar, show_timings
from tilewright.cli.workload import Workload
from tilewright.compiler.kernel import CompiledNetwork
from tilewright.compiler.pipeline import compile_layers
from tilewright.compiler.settings import Check, Settings
from tilewright.machine import Machine
from tilewright.ops.numerics import sums_called
from tilewright.report.table import layer_table, schedule_legend, totals
from tilewright.report.view import NetworkResult
from tilewright.tune.executors import open_executor
from tilewright.tune.records import Records


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
    schedule: str | None = None,
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
            schedule=schedule,
        )
        return compile_layers(workload.name, workload.layers, machine, settings)


def write_result(
    workload: Workload, compiled: CompiledNetwork, out: Path | None, output: OutputOptions
) -> NetworkResult:
    """Write what was asked for; the result names the folders."""
    if out is None:
        return compiled.result()
    started = time.perf_counter()
    if workload.is_operator:
        (kernel,) = compiled.kernels.values()
        kernel.write(out)
        result = compiled.result()
        layers = tuple(structs.replace(layer, artifact=str(out)) for layer in result.layers)
        result = structs.replace(result, layers=layers)
    else:
        with progress_bar(output) as progress:
            compiled.write(out, progress)
        result = compiled.result(out)
    timings = {**result.timings, "write": time.perf_counter() - started}
    return structs.replace(result, timings=timings)


def show_result(
    result: NetworkResult, machine: Machine, output: OutputOptions, *, timings: bool = False
) -> None:
    """The table, the totals, the checks; or the JSON contract."""
    output.value(result)
    output.show(
        layer_table(result, machine.clock_hz, schedules=output.is_wide),
        totals(result, machine.peak_flops_of(sums_called(result.dtype))),
    )
    if output.is_wide and (legend := schedule_legend(x.schedule for x in result.layers)):
        output.show(legend)
    for check in result.checks:
        name = check.name if check.images is None else f"{check.name} for {check.images} images"
        output.show(f"{check.algorithm}: code of {name} ({check.shape}) is {check.check}")
    if timings:
        show_timings(result.timings, output)
