"""Objects on disk: written in one step, read back, and summed up for a reader."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.asm.front_end import maps_of
from tilewright.asm.objects.elf import elf_bytes
from tilewright.asm.objects.elf_read import read_elf, read_table_name
from tilewright.asm.objects.object import Object, Section, Symbol
from tilewright.common.errors import AssemblyError
from tilewright.common.files import new_file, require_regular
from tilewright.isa import InstructionTable

_LARGEST_FILE_BYTES = 1 << 30


def write_object(source: Object, path: Path) -> None:
    """Write an ELF file, whole or not at all. Raises AssemblyError."""
    try:
        with new_file(path) as file:
            file.write(elf_bytes(source))
    except OSError as error:
        raise AssemblyError(f"cannot write it: {error.strerror}", where=str(path)) from error


def read_object(path: Path, table: InstructionTable) -> Object:
    """The object in an ELF file. Raises AssemblyError."""
    return read_elf(_read_bytes(path), table, name=str(path))


def stored_table_name(path: Path) -> str:
    """The name of the instruction table that an ELF file was made with. Raises AssemblyError."""
    return read_table_name(_read_bytes(path), name=str(path))


def _read_bytes(path: Path) -> bytes:
    try:
        require_regular(path)
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise AssemblyError(f"larger than {_LARGEST_FILE_BYTES} bytes", where=str(path))
        return path.read_bytes()
    except OSError as error:
        raise AssemblyError(f"cannot read it: {error.strerror}", where=str(path)) from error


def dependency_rule(source: Object, target: Path, folder: Path) -> str:
    """A rule for make: `target` is made from the source in `folder` and all that it includes."""
    names = dict.fromkeys([source.file_name, *(entry.file for entry in source.lines)])
    paths = (_escaped(str(folder / name)) for name in names)
    return f"{_escaped(str(target))}: {' '.join(paths)}\n"


def _escaped(path: str) -> str:
    """A path as make reads it."""
    return re.sub(r"([ #])", r"\\\1", path).replace("$", "$$")


def object_summary(source: Object) -> str:
    """Sections, symbols, relocations, and where the language's data lies, as text."""
    kind = "image" if source.is_linked else "object"
    rows = [f"{source.file_name}: {kind} for {source.instruction_set}", "", "sections"]
    rows += [_section_row(section) for section in source.sections]
    rows += ["", "symbols"] + [_symbol_row(source, symbol) for symbol in source.symbols]
    if source.relocations:
        rows += ["", "relocations"]
        rows += [
            f"  {r.section}+{r.offset:#x}  {r.kind.name.lower()}  {r.symbol}{r.addend:+d}"
            for r in source.relocations
        ]
    return "\n".join([*rows, *maps_of(source)]) + "\n"


def _section_row(section: Section) -> str:
    kind = "nobits" if section.nobits else "progbits"
    return (
        f"  {section.name:<16} {section.address:08x}  {section.size_bytes:>8} bytes  "
        f"align {section.alignment_bytes:<5} {section.flags:<3} {kind}"
    )


def _symbol_row(source: Object, symbol: Symbol) -> str:
    bind = "global" if symbol.is_global else "local"
    if symbol.section is None:
        return f"  {'undefined':<17} {bind:<6} {symbol.name}"
    address = source.address_of(symbol.name) if source.is_linked else symbol.value
    place = f"{address & (1 << 64) - 1:08x} {symbol.section or 'number'}"
    return f"  {place:<17} {bind:<6} {symbol.name}{f' ({symbol.kind})' if symbol.kind else ''}"
