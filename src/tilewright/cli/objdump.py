"""`tilewright objdump`: an ELF object as text."""

from __future__ import annotations

from pathlib import Path

from tilewright.asm import disassemble, object_summary, read_object, stored_table_name
from tilewright.cli.arguments import Objdump
from tilewright.cli.asm import named_table, object_result
from tilewright.common.errors import AssemblyError
from tilewright.isa import InstructionTable, load_table, table_names


def run(asked: Objdump) -> None:
    """Show an object by its own instruction table, or by a named one."""
    file, output = asked.file, asked.output
    known = named_table(asked.machine, asked.table) or _stored_table(file)
    found = read_object(file, known)
    text = disassemble(found, known)
    output.value(object_result(found, file, text))
    output.show(object_summary(found).rstrip("\n"), "", text.rstrip("\n"))


def _stored_table(file: Path) -> InstructionTable:
    """The instruction table that the object names. Raises AssemblyError for an unknown one."""
    name = stored_table_name(file)
    if name not in table_names():
        raise AssemblyError(
            f"it was made with the instruction table '{name}', which is not installed",
            where=str(file),
            fix="install the family that brings it, or give its file with --table",
        )
    return load_table(name)
