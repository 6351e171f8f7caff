"""Whole programs (`programs/*.s`): listings, round trips, and what other tools say of the files."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tilewright.asm import (
    Object,
    assemble,
    assemble_file,
    disassemble,
    elf_bytes,
    link,
    listing,
    object_summary,
    read_elf,
    read_object,
    write_object,
)
from tilewright.asm.objects.elf import relocation_type
from tilewright.common.errors import AssemblyError
from tilewright.isa import load_table

CPE = load_table("sw26010_cpe")
PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.s"))
EXTERNAL = ".globl external\n.data\n.balign 8\nexternal: .quad 7"


def tool(name: str, *arguments: str) -> str:
    """Output of a tool of the system, errors and warnings included."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([name, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(params=PROGRAMS, ids=lambda path: path.stem)
def program(request: pytest.FixtureRequest) -> Object:
    return assemble_file(request.param, CPE)


def image_of(source: Object) -> Object:
    """The program linked, with what it takes from outside."""
    needs = any(symbol.section is None for symbol in source.symbols)
    return link(
        [source, assemble(EXTERNAL, CPE, filename="external.s")] if needs else [source], CPE
    )


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_listing(path: Path) -> None:
    source = assemble_file(path, CPE)
    cycles = {index: 2 * index for index in range(0, len(source.instructions), 2)}
    expected = path.with_suffix(".lst").read_text(encoding="utf-8")
    assert listing(source, cycles) == expected


def test_the_listing_without_cycles_has_no_cycle_column(program: Object) -> None:
    heading = listing(program).splitlines()[1]
    assert heading == "address   bytes                     line    source"


def test_text_to_object_to_text_to_object(program: Object) -> None:
    text = disassemble(program, CPE)
    again = assemble(text, CPE, filename=program.file_name)
    assert again.sections == program.sections
    assert set(again.symbols) == set(program.symbols)
    assert set(again.relocations) == set(program.relocations)
    assert disassemble(again, CPE) == text


def test_elf_round_trip(program: Object) -> None:
    for source in (program, image_of(program)):
        again = read_elf(elf_bytes(source), CPE)
        assert again.sections == source.sections
        assert set(again.symbols) == set(source.symbols)
        assert again.relocations == source.relocations
        assert (again.file_name, again.is_linked) == (source.file_name, source.is_linked)
        assert [(p.section, p.offset) for p in again.instructions][: len(source.instructions)]


def test_instructions_of_an_image_have_numbers_for_all_symbols(program: Object) -> None:
    image = image_of(program)
    count = len(program.instructions)
    for placed in image.instructions[:count]:
        data = image.section(placed.section).data[placed.offset : placed.offset + 4]
        assert assemble(placed.instruction.text(), CPE).section(".text").data == data


def test_readelf_and_objdump_accept_the_files_without_a_warning(
    program: Object, tmp_path: Path
) -> None:
    path = tmp_path / "program.o"
    for source, kind in ((program, "REL"), (image_of(program), "EXEC")):
        write_object(source, path)
        header = tool("readelf", "-a", "-W", str(path))
        assert f"Type:                              {kind}" in header
        assert all(symbol.name in header for symbol in source.symbols)
        tool("readelf", "-W", "--debug-dump=info,abbrev,line", str(path))
        tool("objdump", "-h", "-t", "-r", "-s", str(path))


def test_an_independent_reader_sees_the_same(program: Object) -> None:
    elf = ELFFile(io.BytesIO(elf_bytes(program)))
    for section in program.sections:
        found = elf.get_section_by_name(section.name)
        assert found["sh_size"] == section.size_bytes
        assert found["sh_addralign"] == section.alignment_bytes
        assert section.nobits or found.data() == section.data
    table = elf.get_section_by_name(".symtab")
    for symbol in program.symbols:
        (found,) = table.get_symbol_by_name(symbol.name)
        assert found["st_value"] == symbol.value % 2**64
        assert found["st_other"]["visibility"] == "STV_DEFAULT"
        assert found["st_info"]["bind"] == ("STB_GLOBAL" if symbol.is_global else "STB_LOCAL")
    found_relocations = {
        (name, r["r_offset"], r["r_info_type"], r["r_addend"])
        for name in (".text", ".data", ".rodata")
        if (rela := elf.get_section_by_name(f".rela{name}"))
        for r in rela.iter_relocations()
    }
    assert found_relocations == {
        (r.section, r.offset, relocation_type(r), r.addend) for r in program.relocations
    }


def test_the_line_table_leads_back_to_the_source(tmp_path: Path) -> None:
    source = assemble("nop\n\n.macro two\nnop\nhalt\n.endm\ntwo\n", CPE, filename="k.s")
    line_program = ELFFile(io.BytesIO(elf_bytes(source))).get_dwarf_info()
    (unit,) = line_program.iter_CUs()
    entries = line_program.line_program_for_CU(unit).get_entries()
    states = [entry.state for entry in entries if entry.state is not None]
    assert [(s.address, s.line) for s in states if not s.end_sequence] == [(0, 1), (4, 4), (8, 5)]
    write_object(source, tmp_path / "k.o")
    assert tool("addr2line", "-e", str(tmp_path / "k.o"), "0x8") == "k.s:5\n"


def lines_of(source: Object) -> list[tuple[int, int]]:
    """Addresses and lines that another reader of DWARF finds."""
    dwarf = ELFFile(io.BytesIO(elf_bytes(source))).get_dwarf_info()
    (unit,) = dwarf.iter_CUs()
    states = [entry.state for entry in dwarf.line_program_for_CU(unit).get_entries()]
    return [(s.address, s.line) for s in states if s is not None and not s.end_sequence]


def test_an_image_has_the_lines_of_all_its_code_and_an_object_those_of_the_first() -> None:
    text = 'nop\n.section .more, "ax"\nnop\nnop\n.section .last, "ax"\nhalt\n'
    source = assemble(text, CPE)
    assert lines_of(source) == [(0, 1)]
    image = link([source], CPE)
    more, last = (image.section(name).address for name in (".more", ".last"))
    text_start = image.section(".text").address
    assert lines_of(image) == [(text_start, 1), (more, 3), (more + 4, 4), (last, 6)]


def test_a_file_is_written_whole_and_read_back(program: Object, tmp_path: Path) -> None:
    path = tmp_path / "a.o"
    path.write_bytes(b"old")
    write_object(program, path)
    assert path.read_bytes() == elf_bytes(program)
    assert read_object(path, CPE).sections == program.sections
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.o"]


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    source = assemble("nop", CPE)
    missing = tmp_path / "no" / "a.o"
    with pytest.raises(AssemblyError) as error:
        write_object(source, missing)
    assert str(error.value) == f"{missing}: cannot write it: No such file or directory"
    with pytest.raises(AssemblyError) as error:
        read_object(missing, CPE)
    assert str(error.value) == f"{missing}: cannot read it: No such file or directory"
    with pytest.raises(AssemblyError) as error:
        assemble_file(missing, CPE)
    assert str(error.value) == f"{missing}: cannot read it: No such file or directory"


def test_summary() -> None:
    source = assemble(".globl f\nf: ldi $1, lo(d+4)($31)\n.data\nd: .quad e\n.extern e\n", CPE)
    assert object_summary(source) == (
        "<source>: object for sw26010_cpe\n"
        "\n"
        "sections\n"
        "  .text            00000000         4 bytes  align 4     ax  progbits\n"
        "  .data            00000000         8 bytes  align 1     aw  progbits\n"
        "\n"
        "symbols\n"
        "  00000000 .text    global f\n"
        "  00000000 .data    local  d\n"
        "  undefined         global e\n"
        "\n"
        "relocations\n"
        "  .text+0x0  low  d+4\n"
        "  .data+0x0  data64  e+0\n"
    )
