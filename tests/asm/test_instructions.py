"""One row per instruction, text to bytes to text; random instructions through words and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.asm import assemble, decode, disassemble, encode
from tilewright.asm.encode import decode_word, encode_word, word_bytes
from tilewright.isa import (
    Instruction,
    InstructionTable,
    Memory,
    Operand,
    Register,
    load_table,
    make_instruction,
)
from tilewright.isa.operand_rules import immediate_range
from tilewright.isa.table import InstructionSpec, OperandSpec

ROW_FILES = sorted((Path(__file__).parent / "instructions").glob("*.txt"))
CPE = load_table("sw26010_cpe")


def rows_of(path: Path) -> list[tuple[str, bytes, str]]:
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            text, data, *canonical = (cell.strip() for cell in line.split(" | "))
            rows.append((text, bytes.fromhex(data), canonical[0] if canonical else text))
    return rows


ROWS = [
    pytest.param(path.stem, *row, id=f"{path.stem}: {row[0]}")
    for path in ROW_FILES
    for row in rows_of(path)
]


@pytest.mark.parametrize(("table_name", "text", "data", "canonical"), ROWS)
def test_row(table_name: str, text: str, data: bytes, canonical: str) -> None:
    table = load_table(table_name)
    source = assemble(text, table)
    instruction = decode(data, table)
    assert source.section(".text").data == data
    assert instruction is not None
    assert instruction == source.instructions[0].instruction
    assert instruction.text() == canonical
    assert assemble(canonical, table).section(".text").data == data


@pytest.mark.parametrize("path", ROW_FILES, ids=lambda path: path.stem)
def test_rows_cover_every_instruction_and_alias(path: Path) -> None:
    table = load_table(path.stem)
    written = {(text.split()[0], text.count(",") + (" " in text)) for text, _, _ in rows_of(path)}
    assert {spec.mnemonic for spec in table.instructions} <= {name for name, _ in written}
    assert {(alias.mnemonic, alias.arguments) for alias in table.aliases} <= written


def test_words_follow_the_formats_of_the_table() -> None:
    def word(text: str) -> int:
        return int.from_bytes(assemble(text, CPE).section(".text").data, "little")

    assert word("vmad $1, $7, $11, $12") == 0x22 << 26 | 1 << 21 | 7 << 16 | 11 << 5 | 12
    assert word("vldd $4, -8($5)") == 0x0F << 26 | 4 << 21 | 5 << 16 | 0xFFF8
    assert word("addl $1, 32, $2") == 0x20 << 26 | 1 << 21 | 32 << 13 | 1 << 12 | 8 << 5 | 2
    assert word("addl $1, $3, $2") == 0x20 << 26 | 1 << 21 | 3 << 16 | 8 << 5 | 2
    assert word("x: bne $9, x") == 0x39 << 26 | 9 << 21 | 0x1FFFFF


def operands_of(table: InstructionTable, spec: InstructionSpec) -> st.SearchStrategy[list[Operand]]:
    def registers(operand: OperandSpec) -> st.SearchStrategy[Register]:
        base = table.file_base(operand.file)
        file = next(f for f in table.register_files if operand.file in ("", f.name))
        return st.integers(base, base + file.count - 1).map(Register)

    def strategy(operand: OperandSpec) -> st.SearchStrategy[Operand]:
        if operand.kind == "register":
            return registers(operand)
        numbers = st.integers(*immediate_range(table, spec, operand))
        if operand.kind == "memory":
            return st.builds(Memory, numbers, registers(operand))
        return numbers | registers(operand) if operand.immediate_field else numbers

    return st.tuples(*(strategy(o) for o in table.operands_of(spec))).map(list)


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    spec = draw(st.sampled_from(CPE.instructions))
    return make_instruction(CPE, spec.mnemonic, draw(operands_of(CPE, spec)))


@given(instructions())
@examples(600)
def test_decoding_inverts_encoding(instruction: Instruction) -> None:
    assert decode(encode(instruction), CPE) == instruction


@given(st.lists(instructions().map(Instruction.text), max_size=8))
@examples(60)
def test_text_to_bytes_to_text_to_bytes(program: list[str]) -> None:
    data = assemble("\n".join(program), CPE).section(".text").data
    text = disassemble(data, CPE)
    assert assemble(text, CPE).section(".text").data == data
    assert disassemble(assemble(text, CPE), CPE) == text


@given(st.integers(0, 2**32 - 1))
@examples(600)
def test_encoding_inverts_decoding(word: int) -> None:
    instruction = decode_word(word, CPE)
    assert instruction is None or encode_word(instruction) == word


@given(st.binary(max_size=64))
@examples(200)
def test_any_bytes_survive_disassembly(data: bytes) -> None:
    assert assemble(disassemble(data, CPE), CPE).section(".text").data == data


def test_a_stray_bit_makes_a_word_no_instruction() -> None:
    halt = assemble("halt", CPE).section(".text").data
    assert decode(halt, CPE) is not None
    assert decode(word_bytes(CPE, int.from_bytes(halt, "little") | 1), CPE) is None
