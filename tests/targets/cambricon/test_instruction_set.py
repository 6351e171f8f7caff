"""The instruction set of Cambricon: encodings as the sources draw them, and there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from tilewright.asm import assemble, decode, encode, link
from tilewright.common.errors import MachineError
from tilewright.isa import Instruction, InstructionSpec, Register, load_table, make_instruction
from tilewright.isa.load import parse_table, table_files
from tilewright.isa.operand_rules import immediate_range

TABLE = load_table("cambricon")
NAMED = {
    "jump", "cb", "vload", "vstore", "mload", "mstore", "smove", "mmv", "vmm", "mms", "op", "mam",
    "msm", "vav", "vsv", "vmv", "vdv", "vas", "vexp", "vlog", "rv", "vgt", "ve", "vand", "vor",
    "vnot", "vgtm", "sadd",
}  # fmt: skip
"""The mnemonics that public accounts of the paper name."""


@st.composite
def instructions(draw: st.DrawFn, spec: InstructionSpec) -> Instruction:
    operands: list[Register | int] = []
    for operand in TABLE.operands_of(spec):
        number = operand.kind in ("immediate", "target")
        if operand.kind == "register_or_immediate":
            number = draw(st.booleans())
        if number:
            operands.append(draw(st.integers(*immediate_range(TABLE, spec, operand))))
        else:
            operands.append(Register(draw(st.integers(0, 63))))
    return make_instruction(TABLE, spec.mnemonic, operands)


@pytest.mark.parametrize("spec", TABLE.instructions, ids=lambda spec: spec.mnemonic)
def test_there_and_back(spec: InstructionSpec) -> None:
    @given(instructions(spec))
    @examples(20)
    def run(instruction: Instruction) -> None:
        word = encode(instruction)
        assert decode(word, TABLE) == instruction
        (placed,) = assemble(instruction.text(), TABLE).instructions
        assert placed.instruction == instruction

    run()


def test_every_instruction_that_the_sources_name_is_there() -> None:
    assert set(TABLE.by_mnemonic) >= NAMED
    assert {s.mnemonic for s in TABLE.instructions if s.source == "paper"} >= NAMED


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("jump 5", [(1, 1), (32, 5), (24, 0)]),
        ("jumpr $3", [(1, 0), (6, 3), (50, 0)]),
        ("cbr $3, $4", [(1, 0), (6, 3), (6, 4), (44, 0)]),
        ("cb $3, -2", [(1, 1), (6, 3), (32, 2**32 - 2), (18, 0)]),
        ("vload $1, $2, $3, #100", [(1, 0), (6, 1), (6, 2), (6, 3), (32, 100), (6, 0)]),
        ("vload $1, $2, #100", [(1, 1), (6, 1), (6, 2), (32, 100), (12, 0)]),
        ("mmv $1, $2, $3, $4, $5", [(1, 0), (6, 1), (6, 2), (6, 3), (6, 4), (6, 5), (26, 0)]),
        ("vgtm $1, $2, $3, $4", [(1, 0), (6, 1), (6, 2), (6, 3), (6, 4), (32, 0)]),
        ("sadd $1, $2, #7", [(1, 1), (6, 1), (6, 2), (32, 7), (12, 0)]),
        ("sadd $1, $2, $7", [(1, 0), (6, 1), (6, 2), (6, 7), (38, 0)]),
    ],
)  # fmt: skip
def test_the_fields_of_a_word(text: str, fields: list[tuple[int, int]]) -> None:
    """Below an opcode of seven bits: its low bit, operands from the high bits down, zeros."""
    word = int.from_bytes(link([assemble(text, TABLE)], TABLE).section(".code").data, "little")
    low = 57
    for width, value in fields:
        low -= width
        assert word >> low & ((1 << width) - 1) == value
    assert low == 0
    assert word >> 57 != 0


def test_a_set_spare_bit_is_no_instruction() -> None:
    word = int.from_bytes(encode(make_instruction(TABLE, "smove", (Register(1), 5))), "little")
    assert decode((word | 1).to_bytes(8, "little"), TABLE) is None


def test_addresses_count_elements() -> None:
    text = "VLOAD $2, $1, #x+4\n.static_rw\n.space 64\nx: .space 200"
    (placed,) = link([assemble(text, TABLE)], TABLE).instructions
    assert placed.instruction.text() == f"vloada $2, $1, #{64 // 2 + 4}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'memory = "matrix", address = "local"',
            'memory = "matricks", address = "local"',
            "instruction 'mload': span: no memory 'matricks'; memories: main, vector, matrix",
        ),
        (
            'count = "out_size * in_size"',
            'count = "out_size * width"',
            "instruction 'mmv': span of matrix depends on width; it has the operands "
            "in_size, matrix, out, out_size, source",
        ),
        (
            'operation = "outer_product"\n',
            "",
            "instruction 'op': operation, spans and cycles belong to the effect 'operation', which "
            "has a name; give effect = 'operation' and operation = 'NAME'",
        ),
        (
            "matrix_start + ceil_div(size, matrix_elements)",
            "matrix_start / 2",
            "'matrix_start / 2' is not an integer expression",
        ),
    ],
)
def test_contradictory_operations_are_refused(old: str, new: str, message: str) -> None:
    text = table_files()["cambricon"][1].read_text()
    assert old in text
    with pytest.raises(MachineError) as error:
        parse_table(text.replace(old, new).encode(), where="t.toml")
    assert str(error.value) == f"t.toml: {message}"
