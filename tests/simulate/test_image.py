"""From assembly text through objects and ELF files to the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright.papers
from tilewright.asm import assemble as assemble_text
from tilewright.asm import elf_bytes, link, read_elf
from tilewright.common.errors import AssemblyError
from tilewright.isa import load_table
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_core
from tilewright.simulate.program import AssembledProgram, _timing_flags
from tilewright.simulate.units.layout import SCALED

CPE = load_table("sw26010_cpe")
LISTINGS = Path(tilewright.papers.__file__).parent / "swdnn" / "listings"
TEXT = """
        .text
        .globl main
main:   ldi     $1, x($31)
        vldd    $2, 0($1)
        bsr     $26, double
        vstd    $3, 32($1)
        halt
double: vaddd   $2, $2, $3
        ret     $26
        .data
        .balign 32
x:      .quad   0x3ff0000000000000, 0x4000000000000000, 0, 0x4008000000000000
        .zero   32
"""


@pytest.mark.parametrize("through_file", [False, True])
def test_an_image_runs_with_its_data_and_its_calls(through_file: bool) -> None:
    image = link([assemble_text(TEXT, CPE)], CPE)
    if through_file:
        image = read_elf(elf_bytes(image), CPE)
    loaded = load_image(image, CPE)
    run = simulate_core(loaded.program, entry="main", local_memory=loaded.local_memory)
    assert run.local_memory[32:64].view(np.float64).tolist() == [2.0, 4.0, 0.0, 6.0]
    assert run.instructions == 7
    assert run.program.entry("double") == 5
    addresses = map(image.address_of, ("main", "double"))
    assert list(map(run.program.number_at, addresses)) == [0, 5]


def test_what_is_not_allocated_or_has_no_data_is_not_loaded() -> None:
    image = link([assemble_text(TEXT, CPE)], CPE)
    (data,) = (section for section in image.sections if section.name == ".data")
    zeros = replace(data, name=".bss", data=b"", nobits=True)
    remark = replace(data, name=".comment", flags="", data=b"remark" * 100_000)
    more = replace(image, sections=(*image.sections, zeros, remark))
    assert np.array_equal(load_image(more, CPE).local_memory, load_image(image, CPE).local_memory)


def test_instructions_keep_their_source_lines() -> None:
    loaded = load_image(link([assemble_text(TEXT, CPE)], CPE), CPE)
    assert [i.line for i in loaded.program.instructions] == [4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("name", ["figure6_original.s", "figure6_reordered.s"])
def test_the_assembler_reads_the_programs_of_these_tests(
    assemble: Callable[[str], AssembledProgram], name: str
) -> None:
    source = (LISTINGS / name).read_text()
    loaded = load_image(link([assemble_text(source, CPE)], CPE), CPE)
    assert np.array_equal(loaded.program.code, assemble(name).code)


def test_an_object_must_be_linked_first() -> None:
    with pytest.raises(AssemblyError) as error:
        load_image(assemble_text("nop", CPE, filename="k.s"), CPE)
    assert str(error.value) == "k.s: it is not linked; link it first"


def test_an_image_needs_code() -> None:
    image = link([assemble_text(".data\n.quad 1", CPE, filename="k.s")], CPE)
    with pytest.raises(AssemblyError) as error:
        load_image(image, CPE)
    assert str(error.value) == f"{image.file_name}: it has no code"


def test_the_length_of_vectors_scales_the_time_of_vector_instructions_alone() -> None:
    table = load_table("torrent")
    assert table.vector_length > 1
    scaled = {s.mnemonic for s in table.instructions if _timing_flags(table, s) & SCALED}
    assert scaled
    assert scaled <= {s.mnemonic for s in table.instructions if table.lanes_of(s) > 1}
