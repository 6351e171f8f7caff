"""The assembler knows no instruction set: 64-bit big-endian words and two register files work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.asm import (
    SourceErrors,
    assemble,
    disassemble,
    elf_bytes,
    encode,
    link,
    read_elf,
)
from tilewright.common.errors import AssemblyError
from tilewright.isa import Effect, load_table, read_table

WIDE = read_table(Path(__file__).parent / "tables" / "wide.toml")
SOURCE = """\
top:\tvload $v1, table+8($2)
\tvscale $v1, $3, $vacc
\tvscale $v1, -1, $v2
\tgo top
\t.data
table:\t.quad 1, top
\t.half 258
"""


def test_words_have_the_width_and_byte_order_of_the_table() -> None:
    source = assemble(SOURCE, WIDE)
    words = [source.section(".text").data[i : i + 8].hex() for i in range(0, 32, 8)]
    assert words == [
        "0201020000000000",
        "0101030700000000",
        "01010082ffffffff",
        "03000000000000fc",
    ]
    assert source.section(".data").data.hex() == "0000000000000001" + "00" * 8 + "0102"


def test_round_trips() -> None:
    source = assemble(SOURCE, WIDE)
    text = disassemble(source, WIDE)
    again = assemble(text, WIDE)
    assert (again.sections, again.relocations) == (source.sections, source.relocations)
    read = read_elf(elf_bytes(source), WIDE)
    assert (read.sections, read.relocations) == (source.sections, source.relocations)
    image = link([source], WIDE)
    assert image.section(".text").data[:8].hex() == "0201020000000008"
    assert image.section(".data").data[8:16] == (4096).to_bytes(8, "big")
    for placed in image.instructions:
        assert encode(placed.instruction) == image.section(".text").data[placed.offset :][:8]


def test_its_own_ranges_and_names_are_in_the_messages() -> None:
    with pytest.raises(SourceErrors) as raised:
        assemble("go far\nvscale $3, 1, $v2\nvload $v8, 0($1)\n.space 8 * 128\nfar: go far", WIDE)
    assert [d.message for d in raised.value.diagnostics] == [
        "far: branch of 130 instructions is outside -128 .. 127 of go",
        "vscale: operand a must be a register of file 'vector'",
        "no register '$v8'",
    ]
    assert raised.value.diagnostics[2].fix == "registers are $0 .. $15, $v0 .. $v7"


def test_objects_of_different_tables_do_not_mix() -> None:
    cpe = load_table("sw26010_cpe")
    with pytest.raises(AssemblyError) as raised:
        link([assemble(SOURCE, WIDE, filename="a.s")], cpe)
    assert str(raised.value) == "a.s: the object is for wide, not for sw26010_cpe"
    with pytest.raises(AssemblyError) as raised:
        read_elf(elf_bytes(assemble("nop", cpe)), WIDE, name="b.o")
    assert str(raised.value) == (
        "b.o: the object is for sw26010_cpe, not for wide; load its own table"
    )


def test_without_an_instruction_that_does_nothing_code_is_padded_with_zeros() -> None:
    assert all(spec.effect is not Effect.NO_OPERATION for spec in WIDE.instructions)
    assert assemble("go 0\n.balign 32", WIDE).section(".text").data[8:] == bytes(24)
