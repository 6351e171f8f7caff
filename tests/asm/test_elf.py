"""Section headers of the files, as an independent reader sees them."""

from __future__ import annotations

import io

from elftools.elf.elffile import ELFFile

from tilewright.asm import Object, assemble, elf_bytes, link
from tilewright.isa import load_table

CPE = load_table("sw26010_cpe")
SOURCE = """\
.globl main
main: nop
.set lowest, -1
.data
.balign 16
place: .quad main
.bss
.space 20
"""
OBJECT = assemble(SOURCE, CPE, filename="k.s")


def headers(source: Object) -> dict[str, tuple[str, int, int, int, int, int, int]]:
    """Type, flags, address, link, further number, alignment and entry size of each section."""
    names = ("type", "flags", "addr", "link", "info", "addralign", "entsize")
    every = ELFFile(io.BytesIO(elf_bytes(source))).iter_sections()
    return {own.name: tuple(own[f"sh_{name}"] for name in names) for own in every}


def test_sections_of_an_object_have_no_addresses() -> None:
    assert headers(OBJECT) == {
        "": ("SHT_NULL", 0, 0, 0, 0, 0, 0),
        ".text": ("SHT_PROGBITS", 6, 0, 0, 0, 4, 0),
        ".data": ("SHT_PROGBITS", 3, 0, 0, 0, 16, 0),
        ".bss": ("SHT_NOBITS", 3, 0, 0, 0, 1, 0),
        ".rela.data": ("SHT_RELA", 64, 0, 9, 2, 8, 24),
        ".tilewright.table": ("SHT_PROGBITS", 0, 0, 0, 0, 1, 0),
        ".debug_line": ("SHT_PROGBITS", 0, 0, 0, 0, 1, 0),
        ".debug_info": ("SHT_PROGBITS", 0, 0, 0, 0, 1, 0),
        ".debug_abbrev": ("SHT_PROGBITS", 0, 0, 0, 0, 1, 0),
        ".symtab": ("SHT_SYMTAB", 0, 0, 10, 7, 8, 24),
        ".strtab": ("SHT_STRTAB", 0, 0, 0, 0, 1, 0),
        ".shstrtab": ("SHT_STRTAB", 0, 0, 0, 0, 1, 0),
    }


def test_an_image_begins_where_its_code_does() -> None:
    image = link([OBJECT], CPE)
    found = headers(image)
    assert [found[name][2] for name in (".text", ".data", ".bss", ".symtab")] == [65536, 0, 8, 0]
    elf = ELFFile(io.BytesIO(elf_bytes(image)))
    assert elf["e_entry"] == 65536
    assert [s["p_flags"] for s in elf.iter_segments()] == [5, 6, 6]
    (lowest,) = elf.get_section_by_name(".symtab").get_symbol_by_name("lowest")
    assert lowest["st_value"] == 2**64 - 1
