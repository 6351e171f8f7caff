"""DWARF 4 line tables: `addr2line` and debuggers map addresses to the assembly source."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.asm.objects.elf_format import layout
from tilewright.asm.objects.object import LineEntry, Object, Section

_STANDARD_LENGTHS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_EXTENDED_END, _EXTENDED_SET_ADDRESS = 1, 2
# compile unit without children: name (string), line table (offset), low address, size in 8 bytes
_ABBREVIATIONS = bytes([1, 0x11, 0, 0x03, 0x08, 0x10, 0x17, 0x11, 0x01, 0x12, 0x07, 0, 0, 0])


def debug_sections(source: Object) -> dict[str, bytes]:
    """Contents of .debug_line, .debug_info and .debug_abbrev; none if no code has a line.

    Before linking, sections have no addresses yet: then only the first code section is described,
    at 0.
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
        ".debug_info": _information(source, described),
        ".debug_abbrev": _ABBREVIATIONS,
    }


def _sequence(
    source: Object, section: Section, lines: Sequence[LineEntry], files: Sequence[str]
) -> bytes:
    """The line program of one section."""
    address = layout(source.byte_order, "Q").pack(section.address)
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
    body = layout(source.byte_order, "HI").pack(4, len(tail)) + tail + program
    return layout(source.byte_order, "I").pack(len(body)) + body


def _information(source: Object, described: Sequence[Section]) -> bytes:
    low = min(section.address for section in described)
    high = max(section.address + section.size_bytes for section in described)
    unit = b"\1" + _text(source.file_name)
    unit += layout(source.byte_order, "IQQ").pack(0, low, high - low)
    body = layout(source.byte_order, "HIB").pack(4, 0, 8) + unit
    return layout(source.byte_order, "I").pack(len(body)) + body


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
