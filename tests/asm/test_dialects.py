"""Dialects: the marks of a text are the table's; a text means the same in every dialect."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.dialects import BRACKETED, TABLES
from tilewright.asm import (
    SourceErrors,
    assemble,
    disassemble,
    elf_bytes,
    link,
    listing,
    read_elf,
)
from tilewright.asm.front_end import machine_of_file
from tilewright.common.errors import AssemblyError, MachineError
from tilewright.isa import (
    Dialect,
    Instruction,
    InstructionTable,
    Memory,
    Register,
    load_table,
    make_instruction,
)
from tilewright.isa.load import check_table
from tilewright.simulate.image import load_image
from tilewright.simulate.instruction_level import simulate_core

SOURCE = """\
        .fast                   ; two vectors
x:      .double 1, 2, 3, 4
y:      .double 0.5, 0.5, 0.5, 0.5
        .code
main:   add r1, r0, #x          ; an immediate has its mark
        add ra, r0, #-3 + 1
again:  load v1, [r1]
        load v2, [r1 + y - x]
        load v3, [r1-0]
        fma v4, v1, v2, v4
        add ra, ra, #1
        loop ra, again
        stop
        .macro twice what
        .quad \\what, \\what
        .endm
        .fast
        twice 7                 ; an argument ends where the comment begins
"""


def test_a_program_is_assembled_linked_listed_disassembled_and_run() -> None:
    source = assemble(SOURCE, BRACKETED, filename="sum.s")
    assert [section.name for section in source.sections] == [".code", ".fast"]
    assert [placed.instruction.text() for placed in source.instructions] == [
        "add r1, r0, #x",
        "add r15, r0, #-2",
        "load v1, [r1+0]",
        "load v2, [r1+32]",
        "load v3, [r1+0]",
        "fma v4, v1, v2, v4",
        "add r15, r15, #1",
        "loop r15, again",
        "stop",
    ]
    row = next(row for row in listing(source).splitlines() if "y - x" in row)
    assert row == "0000000c  20 00 10 32                  8            load v2, [r1 + y - x]"
    image = link([source], BRACKETED)
    loaded = load_image(image, BRACKETED)
    run = simulate_core(loaded.program, entry="main", local_memory=loaded.local_memory)
    assert run.registers[16 + 4].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_objects_and_texts_go_around() -> None:
    source = assemble(SOURCE, BRACKETED)
    text = disassemble(source, BRACKETED)
    assert text.splitlines()[:3] == ["\t.code", "\t.balign 4", "main:"]
    again = assemble(text, BRACKETED)
    assert (again.sections, again.relocations) == (source.sections, source.relocations)
    data = elf_bytes(source)
    assert int.from_bytes(data[18:20], "little") == 0x7401
    read = read_elf(data, BRACKETED)
    assert (read.sections, read.relocations, read.elf_machine) == (
        source.sections,
        source.relocations,
        0x7401,
    )
    with pytest.raises(AssemblyError) as raised:
        read_elf(data, load_table("sw26010_cpe"), name="sum.o")
    assert str(raised.value) == "sum.o: machine 0x7401 is not 0x7477, that of sw26010_cpe"


@pytest.mark.parametrize(
    ("line", "message", "fix"),
    [
        ("add r1, r0, 5", "add: operand b is an immediate without #", "write # before it"),
        ("loop r1, #2", "a branch target has no #", "remove #"),
        ("load v1, 8(r1)", "unexpected '('", "expected ',' or an operator or the end of the line"),
        ("load v1, r1", "load: operand memory must be a [base+displacement], not r1",
         "write for instance [register+0]"),
        ("add r1, r77, r2", "no register 'r77'", "registers are r0 .. r15, v0 .. v7"),
        ("r1: stop", "'r1' is a register and cannot be a symbol", ""),
        (".equ v7, 1", "a name is expected here", ""),
        (".byte #1", "a number or symbol is expected here", ""),
        (".fast\nstop", "instruction 'stop' in data section .fast", "write .code before it"),
        (".zeros\n.byte 1", ".byte in section .zeros, which holds no bytes",
         "reserve with .space, or write .fast before it"),
        (".text", "unknown directive '.text'", "sections are .code, .fast, .zeros"),
        ("add r1, r2 # 1", "unexpected '#'", "expected ',' or the end of the line"),
        (".irp 5", ".irp needs a name and values", "write for instance .irp r, r1, r2"),
    ],
)  # fmt: skip
def test_messages_use_the_marks(line: str, message: str, fix: str) -> None:
    end = "\n.endr" if line.startswith(".irp") else ""
    with pytest.raises(SourceErrors) as raised:
        assemble(line + end, BRACKETED)
    found = raised.value.diagnostics[0]
    assert (found.message, found.fix) == (message, fix)


@st.composite
def instructions(draw: st.DrawFn, table: InstructionTable) -> Instruction:
    """Any instruction of the table."""
    spec = draw(st.sampled_from(table.instructions))
    scalar = st.integers(0, 15).map(Register)
    vector = st.integers(16, 23).map(Register)
    kinds = {
        "add": (scalar, scalar, st.one_of(scalar, st.integers(-2048, 2047))),
        "fma": (vector, vector, vector, vector),
        "load": (vector, st.builds(Memory, st.integers(-(1 << 15), (1 << 15) - 1), scalar)),
        "loop": (scalar, st.integers(-(1 << 15), (1 << 15) - 1)),
        "stop": (),
    }
    return make_instruction(table, spec.mnemonic, [draw(s) for s in kinds[spec.mnemonic]])


@given(st.data())
def test_what_is_printed_is_read_as_the_same(data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(TABLES))
    wanted = data.draw(st.lists(instructions(table), min_size=1, max_size=8))
    comment = table.dialect.comments[-1]
    text = "\n".join(f"\t{i.text()} {comment} {i.text()}" for i in wanted)
    source = assemble(text, table)
    assert [placed.instruction for placed in source.instructions] == wanted
    again = assemble(disassemble(source, table), table)
    assert again.sections == source.sections


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"comments": ()},
         'dialect: needs at least one mark for comments; write comments = ["#"]'),
        ({"comments": ("rem",)}, "dialect: comment mark 'rem' is no mark; use one such as ; or #"),
        ({"comments": ("!",)}, "dialect: comment mark '!' has a meaning in operands; use ;"),
        ({"immediate": "/"}, "dialect: immediate mark '/' has a meaning in operands; use ;"),
        ({"immediate": "#", "comments": ("##",)},
         "dialect: comment mark '##' and immediate mark '#' begin alike; choose another mark for "
         "one of them"),
        ({"memory": "{base}:{displacement}"},
         "dialect: memory operand '{base}:{displacement}' is not understood; write it as "
         '"{displacement}({base})", "[{base}+{displacement}]" or "[{base}, {displacement}]"'),
        ({"memory": "[{base}, #{displacement}]"},
         "dialect: memory operand '[{base}, #{displacement}]' marks its displacement with '#', "
         "which is not the mark of immediates; remove it"),
        ({"sections": [{"name": "code", "flags": "ax"}]},
         "dialect: section 'code' has no name of a directive; write .name"),
        ({"sections": [{"name": ".a", "flags": "ax"}, {"name": ".a", "flags": "a"}]},
         "dialect: section .a is listed twice; remove one"),
        ({"sections": [{"name": ".a", "flags": "rx"}]},
         'dialect: section .a: flags "rx" are not made of a, w, x; write "ax" for code, "aw" for '
         "data"),
        ({"sections": [{"name": ".a", "flags": "aw"}]},
         'dialect: has no section for code; give one the flags "ax"'),
    ],
)  # fmt: skip
def test_a_dialect_that_cannot_be_told_apart_is_refused(
    change: dict[str, object], message: str
) -> None:
    table = msgspec.structs.replace(BRACKETED, dialect=msgspec.convert(change, Dialect))
    with pytest.raises(MachineError) as raised:
        check_table(table, where="own.toml")
    assert str(raised.value) == f"own.toml: {message}"


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        (("r", "r"), "register 'r0' is in file 'scalar' and in file 'vector'; "
         "give the files different prefixes"),
        (("", "v"), "register file 'scalar': prefix '' begins no register's name; "
         "use letters, or $ or % with letters after it"),
    ],
)  # fmt: skip
def test_registers_need_a_spelling_of_their_own(prefixes: tuple[str, str], message: str) -> None:
    files = tuple(
        msgspec.structs.replace(file, prefix=prefix)
        for file, prefix in zip(BRACKETED.register_files, prefixes, strict=True)
    )
    with pytest.raises(MachineError) as raised:
        check_table(msgspec.structs.replace(BRACKETED, register_files=files), where="own.toml")
    assert str(raised.value) == f"own.toml: {message}"


def test_a_section_is_not_called_like_a_directive() -> None:
    sections = [{"name": ".word", "flags": "ax"}]
    dialect = msgspec.convert({"sections": sections}, Dialect)
    with pytest.raises(MachineError) as raised:
        assemble("stop", msgspec.structs.replace(BRACKETED, name="own", dialect=dialect))
    assert str(raised.value) == (
        "dialect of own: section .word is called like a directive; give it another name"
    )


@pytest.mark.parametrize(
    ("name", "machine"), [("a.dla", "dla-al"), ("a.s", None), ("dla", None), ("a.DLA", None)]
)
def test_a_suffix_tells_the_machine_of_a_language(name: str, machine: str | None) -> None:
    assert machine_of_file(Path(name)) == machine
