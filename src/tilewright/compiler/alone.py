"""Kernels compiled alone: an operator, or each convolution and matrix product of a network.

In: a workload. Out: its `Kernels`, and what a `Compiled` does with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from tilewright.codegen.artifact import Array
from tilewright.common.progress import Progress, silent
from tilewright.compiler.checking import compare as judged_by_reference
from tilewright.compiler.checking import random_operands, relative_error
from tilewright.compiler.compiled import Compiled, Outputs
from tilewright.compiler.kernel import Kernels
from tilewright.compiler.pipeline import compile_layers
from tilewright.compiler.settings import Argument, Settings, Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.network.plans import Other
from tilewright.ops.op import in_own_type
from tilewright.report.view import CheckResult, Explanation, LayerResult, NetworkResult, RunResult


def planned(workload: Workload, chain: Toolchain, settings: Settings) -> Kernels:
    """A kernel for each layer, equal ones once."""
    return compile_layers(workload.name, workload.layers, chain.machine, settings)


def title(made: Compiled[Kernels]) -> str:
    """The chosen algorithm with its time, or how many layers take how long in all."""
    if made.workload.is_operator:
        return repr(made.plan.only).removeprefix("<Kernel ").removesuffix(">")
    layers, found = len(made.plan.kernels), made.plan.result()
    return (
        f"{made.name}: {layers} layers alone on {made.machine.name}, "
        f"{found.total_milliseconds:.3f} ms {found.timed_by}"
    )


def arguments(made: Compiled[Kernels]) -> tuple[Argument, ...]:
    """The operands of the operator."""
    kernel = made.plan.only
    op, names = kernel.op, kernel.option.candidate.seed.operands
    return tuple(zip(names, op.input_shapes, op.numerics.operands, strict=True))


def run(
    made: Compiled[Kernels],
    inputs: Sequence[Array],
    named: Mapping[str, Array],
    _weights: Mapping[str, Array] | None,
) -> Outputs:
    """The operator's result."""
    names = (name for name, _, _ in arguments(made))
    return made.plan.only.run(**dict(zip(names, inputs, strict=False)), **named)


def draw_weights(_made: Compiled[Kernels]) -> None:
    """Nothing: every operand is given to a run."""


def figures(made: Compiled[Kernels], _progress: Progress = silent) -> NetworkResult:
    """A line for each layer."""
    return made.plan.result()


def checked(made: Compiled[Kernels], _progress: Progress) -> CheckResult:
    """The code of each distinct layer, run on its own."""
    found = {kernel.check() for kernel in set(made.plan.kernels.values())}
    return "exact" if found == {"exact"} else "within bound"


def judged(
    made: Compiled[Kernels],
    *,
    check: bool,
    measure: bool,
    progress: Progress,
) -> NetworkResult:
    """The figures, with the checks that the settings asked for."""
    return figures(made, progress)


def measured(
    made: Compiled[Kernels],
    inputs: Mapping[str, Array] | None,
    _compare: Other | None,
    _progress: Progress,
) -> tuple[RunResult, Outputs]:
    """The operator on these operands or random ones, judged by its reference."""
    kernel = made.plan.only
    names = kernel.option.candidate.seed.operands
    if inputs is None:
        operands = random_operands(kernel.op, "floats", 0)
    else:
        operands = tuple(in_own_type(kernel.op, [inputs[name] for name in names]))
    outputs = kernel.run(**dict(zip(names, operands, strict=True)))
    (result,) = outputs.values()
    check = judged_by_reference(kernel.op, operands, result, kernel.option.algorithm)
    error = relative_error(kernel.op, operands, result)
    return RunResult(kernel.result, made.machine.name, check, error=error), outputs


def simulated(
    made: Compiled[Kernels],
    *,
    unfused: bool,
    trace_limit: int,
    operands: Mapping[str, Array],
    progress: Progress,
) -> Any:
    """The simulated run of the operator."""
    return made.plan.only.simulate(trace_limit=trace_limit, **operands)


def explained(
    made: Compiled[Kernels],
    part: str | None,
    *,
    changes: bool,
    levels: bool,
    routines: bool,
    progress: Progress,
) -> Explanation:
    """One layer explained, the slowest where none is named."""
    kernel = made.plan.kernel(part or made.plan.slowest)
    found = kernel.explanation(what_if=changes, progress=progress)
    if routines:
        progress("routines", 0, 1)
        found = structs.replace(found, routines=kernel.routines(simulated=True))
    return structs.replace(found, roofline=kernel.roofline() if levels else None)


def write(
    made: Compiled[Kernels],
    directory: Path,
    _weights: Mapping[str, Array] | None,
    found: NetworkResult,
    progress: Progress,
) -> NetworkResult:
    """Write the files of an operator; of a network a folder for each distinct layer, and the file
    that ties them together. The result names the folders, and says how long writing took.
    """
    started = time.perf_counter()
    if made.workload.is_operator:
        made.plan.only.write(directory)
        written = structs.replace(found, layers=_located(found, lambda _: str(directory)))
    else:
        made.plan.write(directory, progress)
        folders = made.plan.folders
        written = structs.replace(
            found, layers=_located(found, lambda name: str(directory / folders[name]))
        )
    timings = {**found.timings, "write": time.perf_counter() - started}
    return structs.replace(written, timings=timings)


def _located(found: NetworkResult, folder: Callable[[str], str]) -> tuple[LayerResult, ...]:
    """The layers with their folders."""
    return tuple(structs.replace(layer, artifact=folder(layer.name)) for layer in found.layers)
