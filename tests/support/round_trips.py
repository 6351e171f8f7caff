"""Random instructions of a table, through text and back: every opcode, any operands that fit."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tilewright.asm import Object, assemble, disassemble, link
from tilewright.asm.encode import encode
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
from tilewright.isa.table import BitField, InstructionSpec, OperandSpec

TABLES = tuple(load_table(name) for name in ("cambricon", "sw26010_cpe"))


def random_instruction(table: InstructionTable, chance: random.Random, number: int) -> Instruction:
    """The `number`th opcode, all opcodes in turn, with operands that fit their fields."""
    spec = table.instructions[number % len(table.instructions)]
    operands = [_operand(table, spec, operand, chance) for operand in table.operands_of(spec)]
    return make_instruction(table, spec.mnemonic, operands)


def _operand(
    table: InstructionTable, spec: InstructionSpec, operand: OperandSpec, chance: random.Random
) -> Operand:
    fields = table.fields_of(spec)
    if operand.kind == "register_or_immediate":
        if chance.random() < 0.5:
            return _number(table, spec, operand, chance)
        return _register(table, fields[operand.field], operand, chance)
    if operand.kind == "register":
        return _register(table, fields[operand.field], operand, chance)
    if operand.kind == "memory":
        base = _register(table, fields[operand.base_field], operand, chance)
        return Memory(_number(table, spec, operand, chance), base)
    return _number(table, spec, operand, chance)


def _register(
    table: InstructionTable, field: BitField, operand: OperandSpec, chance: random.Random
) -> Register:
    base = table.file_base(operand.file)
    count = next(f.count for f in table.register_files if table.file_base(f.name) == base)
    return Register(base + chance.randrange(min(count, 1 << field.width_bits)))


def _number(
    table: InstructionTable, spec: InstructionSpec, operand: OperandSpec, chance: random.Random
) -> int:
    """Numbers of all sizes, the limits among them."""
    low, high = immediate_range(table, spec, operand)
    return chance.choice(
        [low, high, 0, chance.randint(low, high), chance.randint(0, min(high, 100))]
    )


def failures(table: InstructionTable, count: int, seed: int) -> Sequence[str]:
    """Instructions that are not themselves again: as their own text, or as the disassembly of an
    object of all of them.
    """
    chance = random.Random(f"{table.name} {seed}")
    found = [random_instruction(table, chance, number) for number in range(count)]
    texts = [instruction.text() for instruction in found]
    code = table.dialect.code_section
    image = link([assemble(f"{code}\n" + "\n".join(texts), table)], table)
    again = link([assemble(disassemble(image, table), table)], table)
    width = table.word_bits // 8
    wrong = []
    for number, instruction in enumerate(found):
        place = slice(number * width, (number + 1) * width)
        words = {_words(made, code)[place] for made in (image, again)}
        if words != {encode(instruction)}:
            wrong.append(texts[number])
    return wrong


def _words(made: Object, section: str) -> bytes:
    return made.section(section).data
