"""A line parser for the programs of these tests, independent of the assembler."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tilewright.papers
from tilewright.isa import (
    InstructionTable,
    Memory,
    Operand,
    Register,
    SymbolReference,
    load_table,
    make_instruction,
)
from tilewright.simulate.program import AssembledProgram, encode_program

LISTINGS = Path(tilewright.papers.__file__).parent / "swdnn" / "listings"
Assemble = Callable[..., AssembledProgram]


def _operand(table: InstructionTable, text: str) -> Operand:
    memory = re.fullmatch(r"(-?\d+)\((\$\w+)\)", text)
    if memory:
        return Memory(int(memory[1]), Register(table.register_numbers[memory[2]]))
    if text in table.register_numbers:
        return Register(table.register_numbers[text])
    return int(text) if re.fullmatch(r"-?\d+", text) else SymbolReference(text)


def parse(text: str, table: InstructionTable) -> AssembledProgram:
    """One instruction or `label:` per line, `#` starts a comment."""
    labels: tuple[str, ...] = ()
    instructions = []
    for number, line in enumerate(text.splitlines(), 1):
        statement = line.split("#")[0].strip()
        if statement.endswith(":"):
            labels += (statement[:-1],)
        elif statement:
            mnemonic, _, rest = statement.partition(" ")
            operands = [_operand(table, part.strip()) for part in rest.split(",") if part.strip()]
            made = make_instruction(table, mnemonic, operands, labels=labels, line=number)
            instructions.append(made)
            labels = ()
    return encode_program(instructions, table)


@pytest.fixture(scope="session")
def assemble() -> Assemble:
    """Text, or the name of one of swDNN's listings, to a program of the CPE (or another table)."""

    def assemble_(text: str, table: InstructionTable | None = None) -> AssembledProgram:
        source = (LISTINGS / text).read_text() if text.endswith(".s") else text
        return parse(source, table or load_table("sw26010_cpe"))

    return assemble_
