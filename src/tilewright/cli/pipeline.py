"""`tilewright pipeline`: what one core's pipeline does with an assembly file, cycle by cycle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.asm import assemble_file, link
from tilewright.cli.launch import LaunchedProgram, launch_program
from tilewright.cli.options import MachineOptions
from tilewright.cli.output import OutputOptions, UsageProblem
from tilewright.codegen.folder import write_text
from tilewright.common.errors import MachineError
from tilewright.isa import InstructionTable, load_table
from tilewright.isa.modulo import Effort, ModuloSchedule, modulo_schedule
from tilewright.isa.operations import operations_of
from tilewright.machine import Machine
from tilewright.report.pipeline import hottest_loop, pipeline_report
from tilewright.report.pipeline_perfetto import pipeline_perfetto_json
from tilewright.report.pipeline_text import pipeline_text
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import MAX_CYCLES, simulate_core
from tilewright.simulate.runs import CoreRun
from tilewright.simulate.window.hosted import RUNTIMES


def pipeline_command(
    file: Annotated[Path, typer.Argument(help="Assembly text.")],
    machine: MachineOptions,
    output: OutputOptions,
    entry: Annotated[
        str | None, typer.Option(help="Symbol where the core starts; the first instruction else.")
    ] = None,
    timeline: Annotated[
        int, typer.Option(min=1, max=100_000, help="Cycles that the timeline shows.")
    ] = 64,
    minimum: Annotated[
        bool, typer.Option("--minimum", help="Prove how few cycles the hottest loop can take.")
    ] = False,
    ideal_buses: Annotated[
        bool, typer.Option(help="Gets find a zero at once; without it nobody puts to the core.")
    ] = False,
    max_cycles: Annotated[
        int, typer.Option(min=1, max=10**12, help="Cycles after which a run is given up.")
    ] = MAX_CYCLES,
    trace: Annotated[
        Path | None, typer.Option(help="Write a timeline for ui.perfetto.dev.")
    ] = None,
) -> None:
    """Run a program on one core alone; show its pipeline, with a cause for every stall."""
    described = machine.load()
    if RUNTIMES.of(described) is not None:
        _refuse(described, entry or minimum or ideal_buses)
        launched = LaunchedProgram(file, described, trace=trace, timing=True, timeline=timeline)
        return launch_program(launched, output)
    table = _table(described)
    image = link([assemble_file(file, table)], table)
    loaded = load_image(image, table)
    start = 0 if entry is None else loaded.program.number_at(image.address_of(entry))
    run = simulate_core(
        loaded.program,
        entry=start,
        local_memory=loaded.local_memory,
        ideal_communication=ideal_buses,
        max_cycles=max_cycles,
    )
    best = _best_schedule(run, table) if minimum else None
    if trace:
        write_text(trace, pipeline_perfetto_json(run, file.name))
    proven = None if best is None else best.lower_bound_cycles
    output.value(pipeline_report(run, proven))
    output.show(pipeline_text(run, best, timeline).rstrip("\n"))
    if trace:
        output.show(f"timeline written to {trace}")
    return None


def _refuse(machine: Machine, given: object) -> None:
    """Options that mean something for cores whose instructions are pipelined alone."""
    if given:
        raise UsageProblem(f"--entry, --minimum and --ideal-buses mean nothing on {machine.name}")


def _table(machine: Machine) -> InstructionTable:
    """The instruction table of a machine's cores. Errors: MachineError."""
    if machine.core.instruction_table is None:
        raise MachineError(
            f"machine {machine.name!r} has no instruction table: its cores are not simulated",
            fix="give a machine that has core.instruction_table",
        )
    return load_table(machine.core.instruction_table)


def _best_schedule(run: CoreRun, table: InstructionTable) -> ModuloSchedule | None:
    """The shortest schedule of the hottest loop's body, with its proof."""
    loop = hottest_loop(run)
    if loop is None:
        return None
    body = run.program.instructions[loop.first : loop.last + 1]
    return modulo_schedule(operations_of(body), table.issue, effort=Effort())
