"""Objects in which one field is wrong: each is refused in words."""

import os
import struct
from pathlib import Path

import pytest

from tilewright.asm import assemble, elf_bytes, read_elf, read_object
from tilewright.common.errors import AssemblyError
from tilewright.isa import load_table

CPE = load_table("sw26010_cpe")
WHOLE = elf_bytes(assemble("start: ldi $1, lo(x)($31)\nret\n.data\nx: .word 7\n", CPE))
SECTIONS = int.from_bytes(WHOLE[40:48], "little")
"""Offset of the section headers: .text, .data, .rela.text and others; see `HEADERS`."""
COUNT, TYPE, NAMES = (60, "<H"), (16, "<H"), (62, "<H")
HEADERS = {".text": 1, ".data": 2, ".rela.text": 3, ".symtab": 8}
FIELDS = {"name": (0, "<I"), "type": (4, "<I"), "offset": (24, "<Q"), "size": (32, "<Q"),
          "link": (40, "<I"), "info": (44, "<I"), "alignment": (48, "<Q")}  # fmt: skip
SYMBOL_BYTES = 24


def at(section, field):
    """Place and form of a field of a section's header."""
    place, form = FIELDS[field]
    return SECTIONS + 64 * HEADERS[section] + place, form


def value(place):
    return struct.unpack_from(place[1], WHOLE, place[0])[0]


def damaged(place, number):
    data = bytearray(WHOLE)
    struct.pack_into(place[1], data, place[0], number)
    return bytes(data)


SYMBOLS, RELOCATIONS = value(at(".symtab", "offset")), value(at(".rela.text", "offset"))
OF_START = next(
    SYMBOLS + SYMBOL_BYTES * i + 6
    for i, row in enumerate(struct.iter_unpack("<IBBHQQ", WHOLE[SYMBOLS : SYMBOLS + 144]))
    if row[3] == 1 and row[1] & 15 != 3
)


@pytest.mark.parametrize(
    ("place", "number", "message"),
    [
        ((4, "<B"), 1, "not an ELF64 file"),
        (TYPE, 3, "ELF type 3 is neither an object nor an image"),
        (NAMES, value(COUNT), "the ELF file has no section names"),
        ((40, "<Q"), len(WHOLE) - 64 * value(COUNT) + 1, "the ELF file is cut off"),
        (at(".text", "name"), 1 << 20, "a name is outside the string table"),
        (at(".data", "name"), value(at(".text", "name")), "two sections have the same name"),
        (at(".text", "size"), len(WHOLE) - 63, "the ELF file is cut off"),
        (at(".text", "alignment"), 12, "section .text has the alignment 12"),
        (at(".text", "alignment"), 1 << 40, f"section .text has the alignment {1 << 40}"),
        (at(".symtab", "type"), 1, "the ELF file has no symbol table"),
        (at(".symtab", "link"), value(COUNT), "the ELF file has no symbol table"),
        (at(".data", "type"), 2, "the ELF file has no symbol table"),
        ((OF_START, "<H"), 77, "a symbol is in section 77, which does not exist"),
        ((OF_START, "<H"), 4, "'start' is in section .tilewright.table, which has no bytes"),
        (at(".rela.text", "info"), 0, "a symbol is in section 0, which does not exist"),
        ((RELOCATIONS, "<Q"), 5, "a relocation at 0x5 is outside .text"),
        ((RELOCATIONS, "<Q"), 4, "ret has no operand 1"),
        ((RELOCATIONS + 12, "<I"), 6, None),
        ((RELOCATIONS + 8, "<I"), 0xFFFF, None),
    ],
)  # fmt: skip
def test_one_wrong_field(place, number, message):
    assert struct.pack(place[1], number) != WHOLE[place[0] : place[0] + struct.calcsize(place[1])]
    with pytest.raises(AssemblyError) as refused:
        read_elf(damaged(place, number), CPE, name="sum.o")
    if message is None:
        information = value((RELOCATIONS + 8, "<Q"))
        changed = struct.unpack_from("<Q", damaged(place, number), RELOCATIONS + 8)[0]
        assert changed != information
        message = f"relocation {changed:#x} is not known"
    assert str(refused.value).partition(";")[0] == f"sum.o: {message}"


@pytest.mark.parametrize("size", [5, 16, 40, 63])
def test_a_file_of_a_part_of_its_header(size):
    with pytest.raises(AssemblyError) as refused:
        read_elf(WHOLE[:size], CPE, name="sum.o")
    assert str(refused.value) == "sum.o: the ELF file is cut off"


def test_a_file_of_more_than_a_gibibyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.o"
    path.touch()
    os.truncate(path, (2 << 30) + 1)
    with pytest.raises(AssemblyError) as caught:
        read_object(path, CPE)
    assert str(caught.value) == f"{path}: larger than 1073741824 bytes"
