"""Objects as ELF64 files: ET_REL before linking, ET_EXEC after.

`readelf -a`, `objdump -h -t -r -s`, `addr2line` and independent readers accept them. The machine
number is the instruction table's, whose name is stored in `.tilewright.table`. The layout follows
the System V ABI, chapter 4; the reader shares the format's numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tilewright.asm.objects.sections import (
    LineEntry,
    Object,
    ObjectSection,
    Relocation,
    RelocationKind,
)
from tilewright.asm.text.expression import signed64

TABLE_SECTION = ".tilewright.table"
DEBUG_PREFIX = ".debug_"

TYPE_RELOCATABLE, TYPE_EXECUTABLE = 1, 2
SECTION_NULL, SECTION_PROGBITS, SECTION_SYMTAB, SECTION_STRTAB = 0, 1, 2, 3
SECTION_RELA, SECTION_NOBITS = 4, 8
FLAG_WRITE, FLAG_ALLOC, FLAG_CODE, FLAG_INFO_LINK = 1, 2, 4, 0x40
FLAG_OF_LETTER = {"w": FLAG_WRITE, "a": FLAG_ALLOC, "x": FLAG_CODE}
INDEX_UNDEFINED, INDEX_ABSOLUTE, INDEX_RESERVED = 0, 0xFFF1, 0xFF00
BIND_LOCAL, BIND_GLOBAL = 0, 1
KIND_NUMBERS = {"": 0, "object": 1, "function": 2}
KIND_SECTION, KIND_FILE = 3, 4
SEGMENT_LOAD = 1

HEADER_BYTES, SECTION_HEADER_BYTES, PROGRAM_HEADER_BYTES = 64, 64, 56
SYMBOL_BYTES, RELA_BYTES = 24, 24

ByteOrder = Literal["little", "big"]


def record_layout(byte_order: ByteOrder, fields: str) -> struct.Struct:
    """A record in the file's byte order."""
    return struct.Struct(("<" if byte_order == "little" else ">") + fields)


def header(byte_order: ByteOrder) -> struct.Struct:
    """The ELF header after its 16 identification bytes."""
    return record_layout(byte_order, "HHIQQQIHHHHHH")


def section_header(byte_order: ByteOrder) -> struct.Struct:
    """name, type, flags, address, offset, size, link, info, alignment, entry size."""
    return record_layout(byte_order, "IIQQQQIIQQ")


def program_header(byte_order: ByteOrder) -> struct.Struct:
    """type, flags, offset, virtual and physical address, file and memory size, alignment."""
    return record_layout(byte_order, "IIQQQQQQ")


def symbol_record(byte_order: ByteOrder) -> struct.Struct:
    """name, information, visibility, section index, value, size."""
    return record_layout(byte_order, "IBBHQQ")


def relocation_record(byte_order: ByteOrder) -> struct.Struct:
    """offset, symbol index and type, addend."""
    return record_layout(byte_order, "QQq")


def relocation_type(relocation: Relocation) -> int:
    """Kind in the low byte, operand index above it."""
    return int(relocation.kind) | relocation.operand << 8


def relocation_kind_and_operand(number: int) -> tuple[RelocationKind, int]:
    """The inverse of `relocation_type`. Raises ValueError."""
    return RelocationKind(number & 0xFF), number >> 8 & 0xFF


# DWARF 4 line tables: `addr2line` and debuggers map addresses to the assembly source.

_STANDARD_LENGTHS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_EXTENDED_END, _EXTENDED_SET_ADDRESS = 1, 2
# compile unit without children: name (string), line table (offset), low address, size in 8 bytes
_ABBREVIATIONS = bytes([1, 0x11, 0, 0x03, 0x08, 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0, 0, 0])


def debug_sections(source: Object) -> dict[str, bytes]:
    """Contents of .debug_line, .debug_info and .debug_abbrev; empty if no code has a line.

    Before linking, sections have no addresses; only the first code section is described, at 0.
    """
    code = [section for section in source.sections if section.is_code and section.size_bytes]
    described = code if source.is_linked else code[:1]
    lines = {
        s.name: [e for e in source.lines if e.section == s.name and e.size_bytes] for s in described
    }
    described = [section for section in described if lines[section.name]]
    if not described:
        return {}
    files = list(dict.fromkeys(e.shown_place[0] for s in described for e in lines[s.name]))
    program = b"".join(_sequence(source, s, lines[s.name], files) for s in described)
    return {
        ".debug_line": _line_unit(source, files, program),
        ".debug_info": _debug_information(source, described),
        ".debug_abbrev": _ABBREVIATIONS,
    }


def _sequence(
    source: Object, section: ObjectSection, lines: Sequence[LineEntry], files: Sequence[str]
) -> bytes:
    """The line program of one section."""
    address = record_layout(source.byte_order, "Q").pack(section.address)
    program = bytearray([0, 9, _EXTENDED_SET_ADDRESS]) + address
    offset, number, file_index = 0, 1, 1
    for entry in lines:
        file, line = entry.shown_place
        wanted = files.index(file) + 1
        if wanted != file_index:
            program += bytes([_SET_FILE]) + _unsigned(wanted)
            file_index = wanted
        program += bytes([_ADVANCE_PC]) + _unsigned(entry.offset - offset)
        program += bytes([_ADVANCE_LINE]) + _signed(line - number) + bytes([_COPY])
        offset, number = entry.offset, line
    program += bytes([_ADVANCE_PC]) + _unsigned(section.size_bytes - offset)
    return bytes(program + bytes([0, 1, _EXTENDED_END]))


def _line_unit(source: Object, files: Sequence[str], program: bytes) -> bytes:
    names = b"".join(_text(name) + bytes(3) for name in files)
    # instruction length, operations, statements by default, then the special opcodes' line range
    tail = bytes([1, 1, 1, 0xFB, 14, 13]) + _STANDARD_LENGTHS + b"\0" + names + b"\0"
    body = record_layout(source.byte_order, "HI").pack(4, len(tail)) + tail + program
    return record_layout(source.byte_order, "I").pack(len(body)) + body


def _debug_information(source: Object, described: Sequence[ObjectSection]) -> bytes:
    low = min(section.address for section in described)
    high = max(section.address + section.size_bytes for section in described)
    unit = b"\1" + _text(source.file_name)
    unit += record_layout(source.byte_order, "IQQ").pack(0, low, high - low)
    body = record_layout(source.byte_order, "HIB").pack(4, 0, 8) + unit
    return record_layout(source.byte_order, "I").pack(len(body)) + body


def _text(name: str) -> bytes:
    return name.replace("\0", "").encode("utf-8", "replace") + b"\0"


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def _signed(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        done = (value == 0 and not low & 0x40) or (value == -1 and bool(low & 0x40))
        out.append(low | (0 if done else 0x80))
        if done:
            return bytes(out)


_MASK64 = (1 << 64) - 1


@dataclass(slots=True)
class _Strings:
    """A string table; offset 0 is the empty string."""

    data: bytearray = field(default_factory=lambda: bytearray(1))
    known: dict[str, int] = field(default_factory=lambda: {"": 0})

    def add(self, text: str) -> int:
        if text not in self.known:
            self.known[text] = len(self.data)
            self.data += text.replace("\0", "").encode("utf-8", "replace") + b"\0"
        return self.known[text]


@dataclass(slots=True)
class _Part:
    """One section of the file."""

    name: str
    type: int
    data: bytes
    flags: int = 0
    address: int = 0
    size: int = -1
    link: int = 0
    info: int = 0
    alignment: int = 1
    entry_bytes: int = 0
    offset: int = 0


def elf_bytes(source: Object) -> bytes:
    """The ELF file of an object or image."""
    parts = [_Part("", SECTION_NULL, b"", alignment=0)]
    parts += [_content(section) for section in source.sections]
    count = len(parts)
    relocated = [
        s.name for s in source.sections if any(r.section == s.name for r in source.relocations)
    ]
    extra = {TABLE_SECTION: source.instruction_set.encode() + b"\0", **debug_sections(source)}
    symtab_index = count + len(relocated) + len(extra)
    strings = _Strings()
    symbols, first_global, numbers = _symbols(source, strings)
    for name in relocated:
        index = next(i for i, part in enumerate(parts) if part.name == name)
        data = _relocations(source, name, numbers)
        parts.append(_Part(f".rela{name}", SECTION_RELA, data, FLAG_INFO_LINK))
        parts[-1].link, parts[-1].info = symtab_index, index
        parts[-1].alignment, parts[-1].entry_bytes = 8, RELA_BYTES
    parts += [_Part(name, SECTION_PROGBITS, data) for name, data in extra.items()]
    parts.append(_Part(".symtab", SECTION_SYMTAB, symbols, link=symtab_index + 1))
    parts[-1].info, parts[-1].alignment = first_global, 8
    parts[-1].entry_bytes = SYMBOL_BYTES
    parts.append(_Part(".strtab", SECTION_STRTAB, bytes(strings.data)))
    return _file(source, parts)


def _content(section: ObjectSection) -> _Part:
    flags = sum(FLAG_OF_LETTER[letter] for letter in sorted(set(section.flags)))
    kind = SECTION_NOBITS if section.nobits else SECTION_PROGBITS
    part = _Part(section.name, kind, section.data, flags, section.address, section.size_bytes)
    part.alignment = section.alignment_bytes
    return part


def _symbols(source: Object, strings: _Strings) -> tuple[bytes, int, dict[str, int]]:
    """The symbol table, the index of its first global symbol, and the index of each name."""
    record = symbol_record(source.byte_order)
    rows = [bytes(SYMBOL_BYTES)]
    rows.append(record.pack(strings.add(source.file_name), KIND_FILE, 0, INDEX_ABSOLUTE, 0, 0))
    numbers: dict[str, int] = {}
    indices = {"": INDEX_ABSOLUTE}
    for index, section in enumerate(source.sections, 1):
        numbers[section.name], indices[section.name] = len(rows), index
        rows.append(record.pack(0, KIND_SECTION, 0, index, section.address, 0))
    local = [symbol for symbol in source.symbols if not symbol.is_global]
    shared = [symbol for symbol in source.symbols if symbol.is_global]
    first_global = len(rows) + len(local)
    for symbol in (*local, *shared):
        numbers[symbol.name] = len(rows)
        index = INDEX_UNDEFINED if symbol.section is None else indices[symbol.section]
        base = source.section(symbol.section).address if symbol.section else 0
        bind = BIND_GLOBAL if symbol.is_global else BIND_LOCAL
        information = bind << 4 | KIND_NUMBERS[symbol.kind]
        value = (base + symbol.value) & _MASK64
        rows.append(
            record.pack(strings.add(symbol.name), information, 0, index, value, symbol.size_bytes)
        )
    return b"".join(rows), first_global, numbers


def _relocations(source: Object, section: str, numbers: dict[str, int]) -> bytes:
    record = relocation_record(source.byte_order)
    return b"".join(
        record.pack(r.offset, numbers[r.symbol] << 32 | relocation_type(r), signed64(r.addend))
        for r in source.relocations
        if r.section == section
    )


def _file(source: Object, parts: list[_Part]) -> bytes:
    """Header, segments, contents and section headers."""
    names = _Strings()
    parts.append(_Part(".shstrtab", SECTION_STRTAB, b""))
    name_offsets = [names.add(part.name) for part in parts]
    parts[-1].data = bytes(names.data)
    loaded = [p for p in parts if p.flags & FLAG_ALLOC and source.is_linked]
    body = bytearray(HEADER_BYTES + PROGRAM_HEADER_BYTES * len(loaded))
    for part in parts[1:]:
        body += bytes(-len(body) % max(part.alignment, 1))
        part.offset = len(body)
        body += part.data
    body += bytes(-len(body) % 8)
    headers = b"".join(
        _header(part, name, source.byte_order)
        for part, name in zip(parts, name_offsets, strict=True)
    )
    segments = b"".join(_segment(source, part) for part in loaded)
    body[:HEADER_BYTES] = _file_header(source, len(loaded), len(body), len(parts))
    body[HEADER_BYTES : HEADER_BYTES + len(segments)] = segments
    return bytes(body) + headers


def _header(part: _Part, name: int, byte_order: ByteOrder) -> bytes:
    size = len(part.data) if part.size < 0 else part.size
    return section_header(byte_order).pack(
        name,
        part.type,
        part.flags,
        part.address,
        part.offset,
        size,
        part.link,
        part.info,
        part.alignment,
        part.entry_bytes,
    )


def _segment(source: Object, part: _Part) -> bytes:
    flags = 4 | (part.flags & FLAG_WRITE) << 1 | (part.flags & FLAG_CODE) >> 2
    return program_header(source.byte_order).pack(
        SEGMENT_LOAD, flags, part.offset, part.address, part.address, len(part.data), part.size, 1
    )


def _file_header(source: Object, segments: int, section_offset: int, sections: int) -> bytes:
    data = 1 if source.byte_order == "little" else 2
    identification = b"\x7fELF" + bytes([2, data, 1]) + bytes(9)
    return identification + header(source.byte_order).pack(
        TYPE_EXECUTABLE if source.is_linked else TYPE_RELOCATABLE,
        source.elf_machine,
        1,
        _entry_address(source),
        HEADER_BYTES if segments else 0,
        section_offset,
        0,
        HEADER_BYTES,
        PROGRAM_HEADER_BYTES if segments else 0,
        segments,
        SECTION_HEADER_BYTES,
        sections,
        sections - 1,
    )


def _entry_address(source: Object) -> int:
    """The start of an image's first code section; 0 for objects."""
    code = (section.address for section in source.sections if section.is_code)
    return next(code, 0) if source.is_linked else 0
