"""`tilewright compile`: choose, generate, check and report, for an operator or a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from tilewright.cli.arguments import Compile
from tilewright.cli.options import given_options
from tilewright.cli.output import StageClock, UsageProblem, progress_bar
from tilewright.cli.workload import (
    compile_workload,
    is_operator,
    machine_of,
    read_workload,
    require_options,
    show,
)
from tilewright.codegen.folder import require_replaceable, write_bytes
from tilewright.common.deferred import Deferred
from tilewright.common.errors import SimulationError
from tilewright.common.files import read_file_text
from tilewright.compiler.compiled import Figures
from tilewright.compiler.settings import Workload
from tilewright.compiler.toolchain import Toolchain
from tilewright.graph.rewriting import simplified
from tilewright.graph.training import LABELS, passes_of, training_step
from tilewright.machine.build import SECTIONS
from tilewright.network.results import NetworkRun
from tilewright.ops import OPERATORS
from tilewright.report.network import counted, saturated_text

if TYPE_CHECKING:
    from tilewright.report import division_model
else:  # heavy: onnx
    division_model = Deferred("tilewright.report.division_model")


def run(asked: Compile) -> None:
    """Choose the best schedules of a network or operator; generate and time its code."""
    chain, options, output = Toolchain(machine_of(asked.machine)), asked.options, asked.output
    way = _way(asked, chain)
    file = options.schedule
    schedule = None if file is None else read_file_text(file, errors="replace")
    if options.out is not None:
        require_replaceable(options.out)
    clock, workload = StageClock(), _workload(asked, chain, way)
    made = compile_workload(
        workload, chain, asked.search, output,
        alone=way == "alone", division=asked.division, clock=clock,
        top=options.top, check=options.which, writes=options.out is not None,
        measure=options.measure, schedule=schedule,
    )  # fmt: skip
    timed = options.measure and chain.executes_here
    if options.out is not None or options.check or timed:
        made.draw_weights()  # otherwise their numbers are not needed
    with progress_bar(output, clock) as progress:
        found = made.judged(check=options.check, measure=options.measure, progress=progress)
        if options.strict:
            require_unsaturated(found)
        if options.training and way == "whole":
            step = simplified(workload.whole)
            images = step.tensors[LABELS].shape[0]
            found = found.with_passes(passes_of(step), images)
        if options.out is not None:
            found = made.written(options.out, found, progress)
    if options.onnx_out is not None:
        write_bytes(options.onnx_out, division_model.divided_model(made.plan, found))
    found = structs.replace(found, timings=found.timings or clock.seconds)
    _show(asked, found, chain)


def require_unsaturated(found: Figures) -> None:
    """Raise SimulationError where elements saturated in the run of a network."""
    saturated = found.saturated if isinstance(found, NetworkRun) else {}
    if saturated:
        count = sum(saturated.values())
        raise SimulationError(
            f"{found.network}: {counted(count, 'element')} saturated, {saturated_text(saturated)}",
            fix="smaller weights and inputs, or leave --strict",
        )


def _way(asked: Compile, chain: Toolchain) -> str:
    """The way to compile the workload. Raises UsageProblem for options that do not apply to it."""
    options, layers = asked.options, asked.options.layers
    operator = is_operator(asked.network)
    options.require_one_check()
    if options.schedule is not None and not operator:
        raise UsageProblem(f"--schedule is for one operator, {', '.join(OPERATORS)}")
    divides = chain.divides is not None and not chain.divides.trains
    if options.strict and (layers or operator):
        raise UsageProblem("--strict counts in the run of a whole network, not of layers alone")
    if options.training and (layers or operator or divides):
        raise UsageProblem("--training is for networks that are compiled as a whole")
    if layers and operator:
        raise UsageProblem(f"--layers is for networks, found {asked.network}")
    way = chain.way(alone=layers or operator)
    require_options(
        way,
        chain,
        asked.search,
        asked.division,
        instead="--layers for the products of the network alone",
        way_out="add --layers",
        onnx_out=options.onnx_out is not None,
        top=options.top > 0,
        kernels=given_options(options, "check_each_algorithm"),
    )
    return way


def _workload(asked: Compile, chain: Toolchain, way: str) -> Workload:
    """The workload; layers compiled alone have the kernels' element type."""
    own = way != "alone" or chain.machine.core.elements is not None
    usual = chain.usual_type if own else "f64"
    workload = read_workload(asked.network, asked.operator, usual)
    if asked.options.training:
        return Workload.of(training_step(workload.whole))
    return workload


def _show(asked: Compile, found: Figures, chain: Toolchain) -> None:
    """Print the figures and the files written."""
    options, output = asked.options, asked.output
    written = (options.out, options.onnx_out)
    show(found, chain.machine, output, timings=options.timings, written=written)
    if options.training and (sections := SECTIONS.of(chain.machine)) and sections.training:
        output.show(sections.training)
