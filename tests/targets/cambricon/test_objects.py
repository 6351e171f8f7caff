"""Objects of programs in the language: other tools read them, and they are the program again."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from support.cambricon import TABLE
from tilewright.asm import (
    assemble,
    assemble_file,
    disassemble,
    elf_bytes,
    link,
    object_summary,
    read_elf,
)
from tilewright.targets.cambricon.dla.declarations import declared_in

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "dla_al").glob("*.dla"))
each = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


@each
def test_an_independent_reader_finds_sections_and_symbols(path: Path) -> None:
    source = assemble_file(path, TABLE)
    for found in (source, link([source], TABLE)):
        elf = ELFFile(io.BytesIO(elf_bytes(found)))
        assert elf.header["e_machine"] == 0xDA1A
        names = {section.name for section in elf.iter_sections()}
        assert names >= {".code", ".static_rw", ".declarations", ".symtab", ".debug_line"}
        assert elf.get_section_by_name(".static_rw")["sh_type"] == "SHT_NOBITS"
        symbols = {symbol.name for symbol in elf.get_section_by_name(".symtab").iter_symbols()}
        assert symbols >= set(declared_in(found))


@each
def test_binutils_take_it_without_a_warning(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.o"
    file.write_bytes(elf_bytes(assemble_file(path, TABLE)))
    for command in (["readelf", "-a", file], ["objdump", "-h", file]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@each
def test_read_back_it_is_the_same_object(path: Path) -> None:
    source = assemble_file(path, TABLE)
    again = read_elf(elf_bytes(source), TABLE)
    assert declared_in(again) == declared_in(source)
    assert again.sections == source.sections
    assert again.relocations == source.relocations
    assert {s.name for s in again.symbols} == {s.name for s in source.symbols}


@each
def test_the_disassembly_makes_the_same_code(path: Path) -> None:
    image = link([assemble_file(path, TABLE)], TABLE)
    again = link([assemble(disassemble(image, TABLE), TABLE)], TABLE)
    assert again.section(".code").data == image.section(".code").data


def test_the_map_has_segments_and_scratchpads() -> None:
    program = """
.code
@relu_fp y, x
.static_rw
@neuron x, 1, 1, 1, 10, 1, 1, 1, 4
@neuron y, 1, 1, 1, 10, 1, 1, 1, 4
"""
    summary = object_summary(link([assemble(program, TABLE, filename="p.dla")], TABLE))
    assert summary.endswith("""
segments, in elements
  00000000 .. 00000009  .static_rw  neuron x (1x1x1x10 in segments of 1x1x1x4)
    00000000 .. 00000003  segment 0, 0, 0, 0
    00000004 .. 00000007  segment 0, 0, 0, 1
    00000008 .. 00000009  segment 0, 0, 0, 2
  00000020 .. 00000029  .static_rw  neuron y (1x1x1x10 in segments of 1x1x1x4)
    00000020 .. 00000023  segment 0, 0, 0, 0
    00000024 .. 00000027  segment 0, 0, 0, 1
    00000028 .. 00000029  segment 0, 0, 0, 2

scratchpads, in elements
  relu_fp at p.dla:3
    vector 00000000 .. 00000003  x 0
    vector 00000004 .. 00000007  x 1
    vector 00000008 .. 0000000b  temporary 0
""")
