"""The numbers of the ELF64 format that the writer and the reader share.

The machine number is the instruction table's; the table's name stands in the section
`.tilewright.table`.
"""

from __future__ import annotations

import struct
from typing import Literal

from tilewright.asm.objects.object import Relocation, RelocationKind

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
