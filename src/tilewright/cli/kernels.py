"""Operators that become kernels of their own: the search, the folder, the table, a run."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct, structs

from tilewright.cli.arguments import Compile, Run
from tilewright.cli.options import SearchOptions
from tilewright.cli.output import OutputOptions, UsageProblem, progress_bar, show_timings
from tilewright.cli.workload import Workload, read_workload
from tilewright.codegen.arrays import in_element_type, read_arrays
from tilewright.codegen.artifact import LOADS, Array
from tilewright.codegen.folder import KERNEL_FILE, require_replaceable, write_arrays
from tilewright.common.errors import GraphError
from tilewright.common.files import read_file_text
from tilewright.compiler.artifact import read_network as read_layers
from tilewright.compiler.checking import compare as judged_by_reference
from tilewright.compiler.checking import random_operands, relative_error
from tilewright.compiler.kernel import CompiledNetwork, Kernel
from tilewright.compiler.pipeline import compile_layers
from tilewright.compiler.settings import Check, Settings
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.names import quoted
from tilewright.machine import Machine
from tilewright.ops.numerics import sums_called
from tilewright.ops.op import in_own_type
from tilewright.report.table import duration, layer_table, schedule_legend, totals
from tilewright.report.view import CheckResult, LayerResult, NetworkResult
from tilewright.tune.executors import open_executor
from tilewright.tune.records import Records


def compile(asked: Compile, chain: Toolchain) -> None:
    """An operator, or the layers of a network, as kernels of their own."""
    options, file = asked.options, asked.options.schedule
    options.require_undivided()
    asked.division.require_undivided()
    schedule = None if file is None else read_file_text(file, errors="replace")
    workload = read_workload(asked.network, asked.operator, chain.usual_type)
    output, target = asked.output, chain.machine
    if options.out is not None:
        require_replaceable(options.out)
    compiled = searched(
        workload, target, asked.search, options.top, output, options.which,
        measure=options.measure, schedule=schedule,
    )  # fmt: skip
    written = write_result(workload, compiled, options.out, output)
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


def kernel_folder(artifact: Path, layer: str | None, output: OutputOptions) -> Path:
    """The folder of the chosen operator; a network's table is shown first."""
    if (artifact / KERNEL_FILE).exists():
        if layer is not None:
            raise UsageProblem(f"{artifact} holds one operator: leave --layer")
        return artifact
    stored = read_layers(artifact)
    chosen = layer or max(stored.result.layers, key=lambda x: x.milliseconds).name
    if chosen not in stored.folders:
        raise no_layer(chosen, stored.folders)
    if layer is None:
        show_slowest(stored.result, stored.machine, chosen, output)
    return artifact / stored.folders[chosen]


def no_layer(name: str, known: Iterable[str]) -> GraphError:
    return GraphError(f"there is no layer {quoted(name)}", fix=f"the layers are {', '.join(known)}")


def show_slowest(
    result: NetworkResult, machine: Machine, chosen: str, output: OutputOptions
) -> None:
    """The table of a network, of which the slowest layer is explained."""
    output.show(layer_table(result, machine.clock_hz, schedules=output.is_wide))
    output.show(
        totals(result, machine.peak_flops_of(sums_called(result.dtype))),
        f"the slowest layer is {chosen}:",
        "",
    )


class RunResult(Struct, frozen=True):
    """The `--json` form of `run`."""

    layer: LayerResult
    machine: str
    check: CheckResult
    output: str | None = None
    error: float | None = None


def run(asked: Run, chain: Toolchain) -> None:
    """Run an operator on the operands of a file or random ones, judge and time it."""
    asked.division.require_undivided()
    LOADS.required(chain.machine, "compile --check on this machine" if chain.emits else "")
    if asked.compare.compare:
        raise UsageProblem("--compare is for networks; operators are compared with the reference")
    output, target, out = asked.output, chain.machine, asked.out
    workload = read_workload(asked.workload_name, asked.operator)
    compiled = searched(workload, target, asked.search, asked.top, output)
    (kernel,) = compiled.kernels.values()
    operands = _operands(kernel, asked.inputs)
    names = kernel.option.candidate.seed.operands
    (result,) = kernel.run(**dict(zip(names, operands, strict=True))).items()
    judged = judged_by_reference(kernel.op, operands, result[1], kernel.option.algorithm)
    if out is not None:
        write_arrays(out, {result[0]: result[1]})
    written = None if out is None else str(out)
    error = relative_error(kernel.op, operands, result[1])
    found = RunResult(kernel.result, target.name, judged, written, error)
    output.value(found)
    _show_run(found, target.clock_hz, output)


def _operands(kernel: Kernel, path: Path | None) -> tuple[Array, ...]:
    """The operands in the file, in the operator's order, or random ones."""
    if path is None:
        return random_operands(kernel.op, "floats", 0)
    names = kernel.option.candidate.seed.operands
    given, kinds = read_arrays(path, names), kernel.op.numerics.operands
    operands = [
        in_element_type(name, given[name], kind, path)
        for name, kind in zip(names, kinds, strict=True)
    ]
    return tuple(in_own_type(kernel.op, operands))


def _show_run(found: RunResult, clock_hz: int, output: OutputOptions) -> None:
    layer = found.layer
    estimate = layer.estimate_cycles / clock_hz * 1e3
    longest = max(estimate, layer.milliseconds)
    model = f"{duration(estimate, longest)} by the model"
    times = f"{duration(layer.milliseconds, longest)} measured, {model}"
    if layer.timed_by != "measured":
        times = f"{model}, not measured"
    output.show(
        f"{layer.name}: {layer.shape}, {layer.algorithm} on {found.machine}",
        f"result: {found.check}, error {found.error:.1e} of the largest value, "
        f"{layer.expected_error:.1e} expected"
        + (f", written to {found.output}" if found.output else ""),
        f"{times}; {layer.gflops:.1f} Gflop/s, {100 * layer.peak_fraction:.1f} % of peak",
    )
