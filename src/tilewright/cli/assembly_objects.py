"""What `tilewright asm` and `tilewright objdump` do with files of text and objects."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tilewright.asm import (
    Object,
    assemble_file,
    dependency_rule,
    disassemble,
    expansion_trace,
    link,
    listing,
    object_summary,
    read_object,
    stored_table_name,
    write_object,
)
from tilewright.asm.front_end import machine_of_file
from tilewright.cli.assembly import AssemblyOptions
from tilewright.cli.launch import instruction_table
from tilewright.cli.output import OutputOptions, UsageProblem
from tilewright.codegen.folder import write_text
from tilewright.common.defaults import DEFAULT_MACHINE
from tilewright.common.errors import AssemblyError
from tilewright.isa import InstructionTable, load_table, read_table, table_names
from tilewright.machine import load_machine


class SectionLine(Struct, frozen=True):
    """One section of an object."""

    name: str
    size_bytes: int


class ObjectResult(Struct, frozen=True):
    """The `--json` form of `asm` and `objdump`; `text` is the listing or the disassembly."""

    file: str
    table: str
    sections: tuple[SectionLine, ...]
    symbols: tuple[str, ...]
    instructions: int
    text: str


def assemble(file: Path, options: AssemblyOptions, output: OutputOptions) -> None:
    """Assemble a file, write its object and what else is asked for."""
    machine = options.machine or machine_of_file(file) or DEFAULT_MACHINE
    known = named_table(options.machine, options.table) or instruction_table(load_machine(machine))
    assembled = assemble_file(file, known)
    if options.executable:
        assembled = link([assembled], known)
    target = options.out or file.with_suffix(".o")
    write_object(assembled, target)
    if options.dependencies is not None:
        write_text(options.dependencies, dependency_rule(assembled, target, file.parent))
    asked = {
        listing: options.show_listing,
        expansion_trace: options.expand,
        object_summary: options.show_map,
    }
    text = "\n".join(render(assembled) for render, is_asked in asked.items() if is_asked)
    output.value(_result(assembled, target, text))
    if text:
        output.show(text.rstrip("\n"))
    output.show(f"{len(assembled.instructions)} instructions written to {target}")


def dump_object(file: Path, machine: str | None, table: str | None, output: OutputOptions) -> None:
    """Show an object by its own instruction table, or by the one that is named."""
    known = named_table(machine, table) or stored_table(file)
    found = read_object(file, known)
    text = disassemble(found, known)
    output.value(_result(found, file, text))
    output.show(object_summary(found).rstrip("\n"), "", text.rstrip("\n"))


def named_table(machine: str | None, name: str | None) -> InstructionTable | None:
    """The table of a machine, a family's or one from a file. Errors: UsageProblem, MachineError."""
    if machine is not None and name is not None:
        raise UsageProblem("--machine has an instruction table of its own: leave --table")
    if machine is not None:
        return instruction_table(load_machine(machine))
    if name is None:
        return None
    if name.endswith(".toml") or "/" in name:
        return read_table(Path(name))
    return load_table(name)


def stored_table(file: Path) -> InstructionTable:
    """The table of a family whose name the object holds. Errors: AssemblyError for another name."""
    name = stored_table_name(file)
    if name not in table_names():
        raise AssemblyError(
            f"it was made with the instruction table '{name}', which is not installed",
            where=str(file),
            fix="install the family that brings it, or give its file with --table",
        )
    return load_table(name)


def _result(found: Object, path: Path, text: str) -> ObjectResult:
    return ObjectResult(
        file=str(path),
        table=found.instruction_set,
        sections=tuple(SectionLine(s.name, s.size_bytes) for s in found.sections),
        symbols=tuple(s.name for s in found.symbols),
        instructions=len(found.instructions),
        text=text,
    )
