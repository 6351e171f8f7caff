"""Objects on disk: written atomically, read back, and summarised for a reader.

Listings: address, bytes, cycle and source line side by side.

    address   bytes         cycle   line    source
    00000014  00 00 df 3c       3     16  > vldd $7, 0($1)

`>` marks a line from a macro, a repetition or an included file, once per level.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tilewright.asm.encode import decode
from tilewright.asm.front_end import maps_of
from tilewright.asm.limits import DEFAULT_LIMITS
from tilewright.asm.objects import elf as fmt
from tilewright.asm.objects import sections as objects
from tilewright.asm.objects.elf import elf_bytes
from tilewright.asm.objects.link import DATA_BYTES, symbolic
from tilewright.asm.objects.sections import LineEntry, Object
from tilewright.asm.text.expression import signed64
from tilewright.common.errors import AssemblyError
from tilewright.common.files import new_file, require_regular
from tilewright.isa import InstructionTable

# ELF64 files back to objects: what `elf` writes, each field checked.

_LETTERS = {flag: letter for letter, flag in fmt.FLAG_OF_LETTER.items()}
_KINDS = {number: kind for kind, number in fmt.KIND_NUMBERS.items()}


@dataclass(frozen=True, slots=True)
class _Header:
    """A section header."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


def read_elf(data: bytes, table: InstructionTable, *, name: str = "<object>") -> objects.Object:
    """The object or image in an ELF file made with this table. Raises AssemblyError."""
    with _located(name):
        return _Reader(_File(data), table).read()


def read_table_name(data: bytes, *, name: str = "<object>") -> str:
    """The name of the instruction table that an ELF file was made with. Raises AssemblyError."""
    with _located(name):
        return _File(data).table_name


@contextmanager
def _located(name: str) -> Iterator[None]:
    """Context that adds the file to errors."""
    try:
        yield
    except struct.error:
        raise AssemblyError("the ELF file is cut off", where=name) from None
    except AssemblyError as error:
        raise AssemblyError(error.message, where=name, fix=error.fix) from None


class _File:
    """The bytes of a file, by sections."""

    def __init__(self, data: bytes) -> None:
        if data[:4] != b"\x7fELF" or data[4:5] != b"\2":
            raise AssemblyError("not an ELF64 file", fix="make it with tilewright asm")
        self.data = data
        self.order: fmt.ByteOrder = "little" if data[5:6] == b"\1" else "big"
        self.fields = fmt.header(self.order).unpack_from(data, 16)
        self.type, self.machine = self.fields[0], self.fields[1]

    @cached_property
    def headers(self) -> list[_Header]:
        """The section headers."""
        offset, count, names_index = self.fields[5], self.fields[11], self.fields[12]
        table = self.slice(offset, count * fmt.SECTION_HEADER_BYTES)
        rows = list(fmt.section_header(self.order).iter_unpack(table))
        if not names_index < count:
            raise AssemblyError("the ELF file has no section names")
        strings = self.slice(rows[names_index][4], rows[names_index][5])
        return [_Header(_string(strings, row[0]), *row[1:9]) for row in rows]

    def slice(self, offset: int, size: int) -> bytes:
        """`size` bytes of the file from `offset`. Raises AssemblyError."""
        if offset + size > len(self.data):
            raise AssemblyError("the ELF file is cut off")
        return self.data[offset : offset + size]

    def content_of(self, header: _Header) -> bytes:
        """The bytes of a section."""
        return b"" if header.type == fmt.SECTION_NOBITS else self.slice(header.offset, header.size)

    @property
    def table_name(self) -> str:
        """The name of the instruction table, from the section for it."""
        found = [header for header in self.headers if header.name == fmt.TABLE_SECTION]
        return _string(self.content_of(found[0]), 0) if found else "an unknown table"


class _Reader:
    """One file being read."""

    def __init__(self, file: _File, table: InstructionTable) -> None:
        if file.machine != table.elf_machine:
            raise AssemblyError(
                f"machine {file.machine:#x} is not {table.elf_machine:#x}, that of {table.name}"
            )
        if file.type not in (fmt.TYPE_RELOCATABLE, fmt.TYPE_EXECUTABLE):
            raise AssemblyError(f"ELF type {file.type} is neither an object nor an image")
        self.file, self.table = file, table
        self.order, self.type, self.headers = file.order, file.type, file.headers

    def read(self) -> objects.Object:
        """The whole object."""
        self._check_table()
        sections = tuple(self._section(h) for h in self.headers if self._is_content(h))
        file_name, symbols, names = self._symbols()
        relocations = self._relocations(names)
        _check_names(sections, symbols, relocations)
        return objects.Object(
            self.table.instruction_set,
            self.order,
            self.table.word_bits // 8,
            file_name,
            sections,
            symbols,
            relocations,
            instructions=_instructions(sections, symbols, relocations, self.table),
            is_linked=self.type == fmt.TYPE_EXECUTABLE,
            elf_machine=self.table.elf_machine,
        )

    def _by_type(self, kind: int) -> list[_Header]:
        return [header for header in self.headers if header.type == kind]

    def _is_content(self, header: _Header) -> bool:
        own = header.name == fmt.TABLE_SECTION or header.name.startswith(fmt.DEBUG_PREFIX)
        return header.type in (fmt.SECTION_PROGBITS, fmt.SECTION_NOBITS) and not own

    def _check_table(self) -> None:
        name = self.file.table_name
        if name != self.table.instruction_set:
            raise AssemblyError(
                f"the object is for {name}, not for {self.table.instruction_set}",
                fix="load its own table",
            )

    def _section(self, header: _Header) -> objects.ObjectSection:
        alignment = max(header.alignment, 1)
        if alignment & (alignment - 1) or alignment > DEFAULT_LIMITS.alignment_bytes:
            raise AssemblyError(f"section {header.name} has the alignment {alignment}")
        flags = "".join(letter for flag, letter in _LETTERS.items() if header.flags & flag)
        return objects.ObjectSection(
            header.name,
            "".join(sorted(flags)),
            self.file.content_of(header),
            header.size,
            alignment,
            header.type == fmt.SECTION_NOBITS,
            header.address,
        )

    def _symbols(self) -> tuple[str, tuple[objects.Symbol, ...], list[str]]:
        """The source's name, the symbols, and the name (or section) of each index."""
        tables = self._by_type(fmt.SECTION_SYMTAB)
        if len(tables) != 1 or not tables[0].link < len(self.headers):
            raise AssemblyError("the ELF file has no symbol table")
        strings = self.file.content_of(self.headers[tables[0].link])
        file_name, symbols, names = "", [], []
        for row in self._rows(tables[0], fmt.symbol_record(self.order)):
            name, kind, index = _string(strings, row[0]), row[1] & 15, row[3]
            if kind == fmt.KIND_FILE:
                file_name = name
            elif kind == fmt.KIND_SECTION:
                name = self._section_name(index)
            elif name:
                symbols.append(self._symbol(name, row))
            names.append(name)
        return file_name, tuple(symbols), names

    def _rows(self, header: _Header, record: struct.Struct) -> list[tuple[int, ...]]:
        content = self.file.content_of(header)
        return list(record.iter_unpack(content[: len(content) - len(content) % record.size]))

    def _symbol(self, name: str, row: tuple[int, ...]) -> objects.Symbol:
        information, index, value, size = row[1], row[3], row[4], row[5]
        section: str | None = None
        if index == fmt.INDEX_ABSOLUTE:
            section = ""
        elif index != fmt.INDEX_UNDEFINED:
            section = self._section_name(index)
            value -= self.headers[index].address
        kind = _KINDS.get(information & 15, "")
        is_global = information >> 4 == fmt.BIND_GLOBAL
        return objects.Symbol(name, section, signed64(value), is_global, kind, size)

    def _section_name(self, index: int) -> str:
        if not 0 < index < len(self.headers):
            raise AssemblyError(f"a symbol is in section {index}, which does not exist")
        return self.headers[index].name

    def _relocations(self, names: list[str]) -> tuple[objects.Relocation, ...]:
        found: list[objects.Relocation] = []
        for header in self._by_type(fmt.SECTION_RELA):
            target = self._section_name(header.info)
            size = self.headers[header.info].size
            for offset, information, addend in self._rows(
                header, fmt.relocation_record(self.order)
            ):
                try:
                    kind, operand = fmt.relocation_kind_and_operand(information)
                    name = names[information >> 32]
                except (ValueError, IndexError):
                    raise AssemblyError(f"relocation {information:#x} is not known") from None
                if offset + DATA_BYTES.get(kind, self.table.word_bits // 8) > size:
                    raise AssemblyError(f"a relocation at {offset:#x} is outside {target}")
                found.append(objects.Relocation(target, offset, kind, name, addend, operand))
        return tuple(found)


def _string(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset)
    if end < 0:
        raise AssemblyError("a name is outside the string table")
    return strings[offset:end].decode("utf-8", "replace")


def _check_names(
    sections: tuple[objects.ObjectSection, ...],
    symbols: tuple[objects.Symbol, ...],
    relocations: tuple[objects.Relocation, ...],
) -> None:
    """Require unique sections, and existing ones for every symbol and relocation."""
    names = {section.name for section in sections}
    if len(names) != len(sections):
        raise AssemblyError("two sections have the same name")
    known = names | {symbol.name for symbol in symbols}
    for symbol in symbols:
        if symbol.section and symbol.section not in names:
            raise AssemblyError(
                f"'{symbol.name}' is in section {symbol.section}, which has no bytes"
            )
    for relocation in relocations:
        if relocation.section not in names or relocation.symbol not in known:
            raise AssemblyError(
                f"a relocation for '{relocation.symbol}' in {relocation.section} has no place"
            )


def _instructions(
    sections: tuple[objects.ObjectSection, ...],
    symbols: tuple[objects.Symbol, ...],
    relocations: tuple[objects.Relocation, ...],
    table: InstructionTable,
) -> tuple[objects.PlacedInstruction, ...]:
    """The code sections decoded, with labels where symbols and relocations are."""
    labels: dict[tuple[str | None, int], list[str]] = {}
    for symbol in symbols:
        labels.setdefault((symbol.section, symbol.value), []).append(symbol.name)
    fixed = {
        (r.section, r.offset): r for r in relocations if r.kind >= objects.RelocationKind.OPERAND
    }
    step, placed = table.word_bits // 8, []
    for section in sections:
        for offset in range(0, len(section.data) - step + 1, step) if section.is_code else ():
            instruction = decode(section.data[offset : offset + step], table)
            if instruction is not None:
                names = tuple(labels.get((section.name, offset), ()))
                instruction = symbolic(instruction, fixed.get((section.name, offset)), names)
                placed.append(objects.PlacedInstruction(section.name, offset, instruction))
    return tuple(placed)


_LARGEST_FILE_BYTES = 1 << 30


def write_object(source: objects.Object, path: Path) -> None:
    """Write an ELF file, whole or not at all. Raises AssemblyError."""
    try:
        with new_file(path) as file:
            file.write(elf_bytes(source))
    except OSError as error:
        raise AssemblyError(f"cannot write it: {error.strerror}", where=str(path)) from error


def read_object(path: Path, table: InstructionTable) -> objects.Object:
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


def dependency_rule(source: objects.Object, target: Path, folder: Path) -> str:
    """A make rule: `target` depends on the source in `folder` and on all files it includes."""
    names = dict.fromkeys([source.file_name, *(entry.file for entry in source.lines)])
    paths = (_escaped(str(folder / name)) for name in names)
    return f"{_escaped(str(target))}: {' '.join(paths)}\n"


def _escaped(path: str) -> str:
    """A path escaped for make."""
    return re.sub(r"([ #])", r"\\\1", path).replace("$", "$$")


def object_summary(source: objects.Object) -> str:
    """Sections, symbols, relocations, and the layout of the language's data, as text."""
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


def _section_row(section: objects.ObjectSection) -> str:
    kind = "nobits" if section.nobits else "progbits"
    return (
        f"  {section.name:<16} {section.address:08x}  {section.size_bytes:>8} bytes  "
        f"align {section.alignment_bytes:<5} {section.flags:<3} {kind}"
    )


def _symbol_row(source: objects.Object, symbol: objects.Symbol) -> str:
    bind = "global" if symbol.is_global else "local"
    if symbol.section is None:
        return f"  {'undefined':<17} {bind:<6} {symbol.name}"
    address = source.address_of(symbol.name) if source.is_linked else symbol.value
    place = f"{address & (1 << 64) - 1:08x} {symbol.section or 'number'}"
    return f"  {place:<17} {bind:<6} {symbol.name}{f' ({symbol.kind})' if symbol.kind else ''}"


_BYTES_PER_ROW = 8
_SHOWN_ROWS = 4


def listing(source: Object, cycles: Mapping[int, int] | None = None) -> str:
    """The listing of an object or image.

    `cycles` holds the issue cycle of each instruction (by its index in `source.instructions`) from
    a scheduler or simulator; without it there is no cycle column.
    """
    index_of = {(p.section, p.offset): i for i, p in enumerate(source.instructions)}
    lines = source.lines or tuple(_decoded_lines(source))
    rows = [f"{source.file_name}: {source.instruction_set}", _heading(cycles is not None)]
    section = ""
    for entry in lines:
        if entry.section != section and entry.size_bytes:
            section = entry.section
            rows.append(f"section {section}")
        rows += _rows(source, entry, cycles, index_of)
    return "\n".join(row.rstrip() for row in rows) + "\n"


def _heading(has_cycles: bool) -> str:
    cycle = "  cycle" if has_cycles else ""
    return f"{'address':<8}  {'bytes':<{3 * _BYTES_PER_ROW - 1}}{cycle}   line    source"


def _rows(
    source: Object,
    entry: LineEntry,
    cycles: Mapping[int, int] | None,
    index_of: Mapping[tuple[str, int], int],
) -> Iterator[str]:
    """The rows of a line; there are several if its bytes do not fit one."""
    data, address = _bytes_of(source, entry)
    shown = data[: _SHOWN_ROWS * _BYTES_PER_ROW]
    chunks = [shown[i : i + _BYTES_PER_ROW] for i in range(0, len(shown), _BYTES_PER_ROW)] or [b""]
    place = f"{address:08x}" if entry.size_bytes else ""
    cycle = ""
    if cycles is not None:
        index = index_of.get((entry.section, entry.offset)) if entry.size_bytes else None
        found = cycles.get(index) if index is not None else None
        cycle = f"  {'' if found is None else found:>5}"
    mark = ">" * entry.depth
    text = printable(entry.text)
    yield f"{place:<8}  {_hex(chunks[0])}{cycle}  {entry.number:>5}  {mark:<2}{text}"
    for number, chunk in enumerate(chunks[1:], 1):
        yield f"{address + number * _BYTES_PER_ROW:08x}  {_hex(chunk)}"
    if len(data) > len(shown):
        yield f"          ... {len(data) - len(shown)} more bytes"


def _bytes_of(source: Object, entry: LineEntry) -> tuple[bytes, int]:
    """The bytes of a line and their address; empty for a dropped section."""
    found = next((s for s in source.sections if s.name == entry.section), None)
    if found is None:
        return b"", 0
    return found.data[entry.offset : entry.offset + entry.size_bytes], found.address + entry.offset


def _hex(chunk: bytes) -> str:
    return f"{chunk.hex(' '):<{3 * _BYTES_PER_ROW - 1}}"


def printable(text: str) -> str:
    """A line without characters that control a terminal."""
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text).expandtabs(8)


def _decoded_lines(source: Object) -> Iterator[LineEntry]:
    """Lines synthesised from the instructions, for an object that was read from a file."""
    for index, placed in enumerate(source.instructions, 1):
        for label in placed.instruction.labels:
            yield LineEntry(placed.section, placed.offset, 0, source.file_name, index, f"{label}:")
        text = f"\t{placed.instruction.text()}"
        size = source.word_bytes
        yield LineEntry(placed.section, placed.offset, size, source.file_name, index, text)


# The trace of an expansion: the lines that each line of a source became, indented below it.
#
# 4  @fc_fp y, x, w
#      block 'fc_fp'
#      smove $32, #0

_INDENT = "  "


def expansion_trace(source: Object) -> str:
    """The lines of an assembled source as expanded; empty for an object read from a file."""
    return "\n".join([f"{source.file_name}: {source.instruction_set}", *_trace_rows(source)]) + "\n"


def _trace_rows(source: Object) -> Iterator[str]:
    origin, depth = "", 0
    for entry in source.lines:
        indent = _INDENT * entry.depth
        if entry.depth and (entry.origin, entry.depth) != (origin, depth) and entry.depth >= depth:
            yield f"{'':5}  {indent}{printable(entry.origin)}"
        origin, depth = entry.origin, entry.depth
        number = "" if entry.depth else str(entry.number)
        yield f"{number:>5}  {indent}{printable(entry.text)}".rstrip()
