"""`tilewright pipeline`: cycle-by-cycle activity of one core's pipeline on an assembly file."""

from __future__ import annotations

from dataclasses import replace

from tilewright.asm import assemble_file, link
from tilewright.asm.front_end import machine_of_file
from tilewright.cli.arguments import Pipeline
from tilewright.cli.launch import LaunchedProgram, instruction_table, launch_program
from tilewright.cli.output import OutputOptions, UsageProblem
from tilewright.cli.workload import machine_of
from tilewright.codegen.arrays import read_arrays
from tilewright.codegen.folder import write_text
from tilewright.common.defaults import DEFAULT_MACHINE
from tilewright.common.errors import SimulationError
from tilewright.isa import InstructionTable
from tilewright.isa.modulo import Effort, ModuloSchedule, modulo_schedule
from tilewright.isa.operations import operations_of
from tilewright.machine import Machine
from tilewright.report import pipeline
from tilewright.report.perfetto import pipeline_perfetto_json
from tilewright.simulate.image import load_image, with_data
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.program import AssembledProgram
from tilewright.simulate.window.hosted import RUNTIMES

_NO_LOOP = "no minimum: the program has no loop, and --minimum is about one iteration of a loop"


def run(asked: Pipeline) -> None:
    """Run a program on one core alone; show its pipeline, with a cause for every stall."""
    name = asked.machine.machine or machine_of_file(asked.file) or DEFAULT_MACHINE
    machine = machine_of(replace(asked.machine, machine=name))
    if RUNTIMES.of(machine) is None:
        _run_core(asked, machine)
        return
    _refuse(machine, asked.entry or asked.minimum or asked.ideal_buses)
    launched = LaunchedProgram(
        asked.file, machine, asked.inputs, trace=asked.trace, timing=True,
        timeline=asked.timeline, max_cycles=asked.max_cycles,
    )  # fmt: skip
    launch_program(launched, asked.output)


def _run_core(asked: Pipeline, machine: Machine) -> None:
    table, output = instruction_table(machine), asked.output
    image = link([assemble_file(asked.file, table)], table)
    loaded = load_image(image, table)
    if asked.inputs is not None:
        loaded = with_data(loaded, image, read_arrays(asked.inputs))
    program, entry = loaded.program, asked.entry
    try:
        run = simulate_core(
            program,
            entry=0 if entry is None else program.number_at(image.address_of(entry)),
            registers=loaded.registers,
            local_memory=loaded.local_memory,
            ideal_communication=asked.ideal_buses,
            max_cycles=asked.max_cycles,
        )
    except SimulationError as error:
        if asked.minimum and (bounds := pipeline.longest_loop(program)):
            _show_minimum(program, bounds, table, error, output)
            return
        raise
    loop = pipeline.hottest_loop(run)
    bounds = (loop.first, loop.last) if loop else pipeline.longest_loop(program)
    best = _best_schedule(program, bounds, table) if asked.minimum and bounds else None
    if asked.trace:
        write_text(asked.trace, pipeline_perfetto_json(run, asked.file.name))
    output.value(pipeline.pipeline_report(run, None if best is None else best.lower_bound_cycles))
    output.show(pipeline.pipeline_text(run, best, asked.timeline).rstrip("\n"))
    if asked.minimum and best is None:
        output.show(f"\n{_NO_LOOP}")
    if asked.trace:
        output.show(f"timeline written to {asked.trace}")


def _refuse(machine: Machine, given: object) -> None:
    """Refuse options that apply only to cores whose instructions are pipelined alone."""
    if given:
        raise UsageProblem(f"--entry, --minimum and --ideal-buses mean nothing on {machine.name}")


def _best_schedule(
    program: AssembledProgram, loop: tuple[int, int], table: InstructionTable
) -> ModuloSchedule:
    """The shortest schedule of a loop's body, with its proof."""
    body = program.instructions[loop[0] : loop[1] + 1]
    return modulo_schedule(operations_of(body), table.issue, effort=Effort())


def _show_minimum(
    program: AssembledProgram,
    loop: tuple[int, int],
    table: InstructionTable,
    error: SimulationError,
    output: OutputOptions,
) -> None:
    """Show the proven minimum of a loop of a program that does not run."""
    best, (first, last) = _best_schedule(program, loop, table), loop
    bound = best.lower_bound_cycles
    output.value(
        pipeline.PipelineReport(
            table.name, last - first + 1, 0, 0.0, 0, {}, {}, bound, failure=str(error)
        )
    )
    output.show(
        f"the program does not run: {error}",
        f"of its longest loop, instructions {first} to {last}:",
        pipeline.minimum_text(best),
    )
