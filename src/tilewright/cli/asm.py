"""`tilewright asm`: assembly text to an ELF object, with optional listings."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tilewright import asm
from tilewright.asm.front_end import machine_of_file
from tilewright.cli.arguments import Asm
from tilewright.cli.launch import instruction_table
from tilewright.cli.output import UsageProblem
from tilewright.codegen.folder import write_text
from tilewright.common.defaults import DEFAULT_MACHINE
from tilewright.isa import InstructionTable, load_table, read_table
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


def run(asked: Asm) -> None:
    """Assemble a file, write its object and the listings requested."""
    file, output = asked.file, asked.output
    machine = asked.machine or machine_of_file(file) or DEFAULT_MACHINE
    known = named_table(asked.machine, asked.table) or instruction_table(load_machine(machine))
    assembled = asm.assemble_file(file, known)
    if asked.executable:
        assembled = asm.link([assembled], known)
    target = asked.out or file.with_suffix(".o")
    asm.write_object(assembled, target)
    if asked.dependencies is not None:
        write_text(asked.dependencies, asm.dependency_rule(assembled, target, file.parent))
    wanted = {
        asm.listing: asked.show_listing,
        asm.expansion_trace: asked.expand,
        asm.object_summary: asked.show_map,
    }
    text = "\n".join(render(assembled) for render, is_wanted in wanted.items() if is_wanted)
    output.value(object_result(assembled, target, text))
    if text:
        output.show(text.rstrip("\n"))
    output.show(f"{len(assembled.instructions)} instructions written to {target}")


def named_table(machine: str | None, name: str | None) -> InstructionTable | None:
    """The table of a machine, a family's or one from a file. Raises UsageProblem, MachineError."""
    if machine is not None and name is not None:
        raise UsageProblem("--machine has an instruction table of its own: leave --table")
    if machine is not None:
        return instruction_table(load_machine(machine))
    if name is None:
        return None
    if name.endswith(".toml") or "/" in name:
        return read_table(Path(name))
    return load_table(name)


def object_result(found: asm.Object, path: Path, text: str) -> ObjectResult:
    return ObjectResult(
        file=str(path),
        table=found.instruction_set,
        sections=tuple(SectionLine(s.name, s.size_bytes) for s in found.sections),
        symbols=tuple(s.name for s in found.symbols),
        instructions=len(found.instructions),
        text=text,
    )
