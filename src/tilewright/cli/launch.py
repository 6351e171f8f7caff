"""`simulate` and `pipeline` for programs that a host launches on an accelerator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.asm import Object, assemble_file, link, read_object
from tilewright.cli.output import OutputOptions
from tilewright.codegen.arrays import read_arrays
from tilewright.codegen.folder import write_arrays, write_text
from tilewright.common.errors import MachineError
from tilewright.common.files import require_regular
from tilewright.common.limits import MOST_WINDOW_CYCLES
from tilewright.isa import InstructionTable, load_table
from tilewright.machine import Machine
from tilewright.report.perfetto import window_perfetto_json
from tilewright.report.pipeline import window_report, window_text
from tilewright.simulate.image import instructions_of
from tilewright.simulate.window.hosted import RUNTIMES

_ELF = b"\x7fELF"


@dataclass(frozen=True)
class LaunchedProgram:
    """A program, its machine and its data, and the files to write."""

    source: Path
    machine: Machine
    inputs: Path | None = None
    outputs: Path | None = None
    trace: Path | None = None
    timing: bool = False
    timeline: int = 0
    max_cycles: int = MOST_WINDOW_CYCLES


def launch_program(program: LaunchedProgram, output: OutputOptions) -> None:
    """Run a program and show its cycles; `timeline` also lists that many operations."""
    table = instruction_table(program.machine)
    image = linked_image(program.source, table)
    given = {} if program.inputs is None else read_arrays(program.inputs)
    runtime = RUNTIMES.required(program.machine)
    found = runtime.run(
        image, program.machine, given, values=not program.timing, max_cycles=program.max_cycles
    )
    instructions, _ = instructions_of(image, table)
    if program.outputs is not None:
        write_arrays(program.outputs, found.outputs)
    if program.trace is not None:
        write_text(program.trace, window_perfetto_json(found.run, instructions, image.file_name))
    report = window_report(found.run, program.machine, len(instructions))
    output.value(report)
    output.show(window_text(found.run, report, instructions, program.timeline).rstrip("\n"))
    for what, path in (("outputs", program.outputs), ("timeline", program.trace)):
        if path is not None:
            output.show(f"{what} written to {path}")


def instruction_table(machine: Machine) -> InstructionTable:
    """The instruction table of a machine's cores. Raises MachineError."""
    name = machine.core.instruction_table
    if name is None:
        raise MachineError(
            f"machine {machine.name!r} has no instruction table",
            fix="give a machine that has core.instruction_table",
        )
    return load_table(name)


def linked_image(source: Path, table: InstructionTable) -> Object:
    """The linked program from a text file or an object."""
    require_regular(source)
    with source.open("rb") as file:
        is_object = file.read(len(_ELF)) == _ELF
    found = read_object(source, table) if is_object else assemble_file(source, table)
    return found if found.is_linked else link([found], table)
