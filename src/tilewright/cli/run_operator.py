"""`tilewright run` for one operator: compile it for this computer, run, judge and time it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tilewright.cli.arrays import in_element_type, read_arrays
from tilewright.cli.layers import searched
from tilewright.cli.options import OperatorOptions, SearchOptions
from tilewright.cli.output import OutputOptions
from tilewright.cli.workload import read_workload
from tilewright.codegen.artifact import Array
from tilewright.codegen.folder import write_arrays
from tilewright.compiler.checking import compare as judged_by_reference
from tilewright.compiler.checking import random_operands, relative_error
from tilewright.compiler.kernel import Kernel
from tilewright.machine import Machine
from tilewright.ops.op import in_own_type
from tilewright.report.table import duration
from tilewright.report.view import CheckResult, LayerResult


class RunResult(Struct, frozen=True):
    """The `--json` form of `run`."""

    layer: LayerResult
    machine: str
    check: CheckResult
    output: str | None = None
    error: float | None = None


def run_operator(
    name: str,
    target: Machine,
    operator: OperatorOptions,
    search: SearchOptions,
    output: OutputOptions,
    files: tuple[Path | None, Path | None],
    top: int,
) -> None:
    """Run an operator; `files` are those of the operands and for the result."""
    inputs, out = files
    workload = read_workload(name, operator)
    compiled = searched(workload, target, search, top, output)
    (kernel,) = compiled.kernels.values()
    operands = _operands(kernel, inputs)
    names = kernel.option.candidate.seed.operands
    (result,) = kernel.run(**dict(zip(names, operands, strict=True))).items()
    judged = judged_by_reference(kernel.op, operands, result[1], kernel.option.algorithm)
    if out is not None:
        write_arrays(out, {result[0]: result[1]})
    written = None if out is None else str(out)
    error = relative_error(kernel.op, operands, result[1])
    found = RunResult(kernel.result, target.name, judged, written, error)
    output.value(found)
    _show(found, target.clock_hz, output)


def _operands(kernel: Kernel, path: Path | None) -> tuple[Array, ...]:
    """Those of the file, in the order of the operator, or random ones."""
    if path is None:
        return random_operands(kernel.op, "floats", 0)
    names = kernel.option.candidate.seed.operands
    given, kinds = read_arrays(path, names), kernel.op.numerics.operands
    operands = [
        in_element_type(name, given[name], kind, path)
        for name, kind in zip(names, kinds, strict=True)
    ]
    return tuple(in_own_type(kernel.op, operands))


def _show(found: RunResult, clock_hz: int, output: OutputOptions) -> None:
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
