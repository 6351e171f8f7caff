"""Encoding of instructions to words and back, by the bit fields of the instruction table.

Decoding is strict: a word with a set bit that its instruction does not use is no instruction. So
`encode(decode(word)) == word` for every word that decodes, and `decode(encode(i)) == i` for every
instruction.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright import isa
from tilewright.common.errors import AssemblyError
from tilewright.isa.operand_rules import operand_rules_of
from tilewright.isa.table import BitField, OperandSpec, fixed_bits


def encode_word(instruction: isa.Instruction) -> int:
    """The word of an instruction whose operands are registers and numbers. Raises AssemblyError."""
    rules = operand_rules_of(instruction.table)[instruction.spec.mnemonic]
    word = rules.constant_bits
    for rule, operand in zip(rules.operands, instruction.operands, strict=True):
        match operand:
            case isa.Register():
                word |= rule.register_bits(operand.number)
            case int():
                word |= rule.number_bits(operand)
            case isa.Memory(int(displacement), base):
                word |= rule.number_bits(displacement) | rule.register_bits(base.number)
            case (isa.SymbolReference() as label) | isa.Memory(isa.SymbolReference() as label, _):
                message = f"symbol {label} has no value yet"
                raise AssemblyError(message, fix="link the object first")
    return word


def encode(instruction: isa.Instruction) -> bytes:
    """The bytes of an instruction in the table's byte order. Raises AssemblyError."""
    return word_bytes(instruction.table, encode_word(instruction))


def word_bytes(table: isa.InstructionTable, word: int) -> bytes:
    """A word in the table's byte order."""
    return word.to_bytes(table.word_bits // 8, table.byte_order)


@lru_cache(maxsize=1 << 16)
def decode_word(word: int, table: isa.InstructionTable) -> isa.Instruction | None:
    """The instruction that a word encodes, or None."""
    for mask, specs in _decoder(table):
        spec = specs.get(word & mask)
        if spec is not None:
            return _decoded(word, table, spec)
    return None


def decode(data: bytes, table: isa.InstructionTable) -> isa.Instruction | None:
    """The instruction in `word_bits / 8` bytes, or None."""
    return decode_word(int.from_bytes(data, table.byte_order), table)


@lru_cache(maxsize=16)
def _decoder(table: isa.InstructionTable) -> tuple[tuple[int, dict[int, isa.InstructionSpec]], ...]:
    """The instructions by the values of their constant bits, grouped by the mask of these bits."""
    groups: dict[int, dict[int, isa.InstructionSpec]] = {}
    for spec in table.instructions:
        mask, value = fixed_bits(table, spec)
        groups.setdefault(mask, {})[value] = spec
    return tuple(groups.items())


def _decoded(
    word: int, table: isa.InstructionTable, spec: isa.InstructionSpec
) -> isa.Instruction | None:
    fields = table.fields_of(spec)
    operands = tuple(_operand(word, table, fields, o) for o in table.operands_of(spec))
    try:
        instruction = isa.make_instruction(table, spec.mnemonic, operands)
    except AssemblyError:
        return None
    return instruction if encode_word(instruction) == word else None


def _operand(
    word: int, table: isa.InstructionTable, fields: dict[str, BitField], spec: OperandSpec
) -> isa.Operand:
    if spec.kind == "register_or_immediate" and _field_value(word, fields[spec.flag_field]):
        return _number(word, fields[spec.immediate_field], spec)
    match spec.kind:
        case "register" | "register_or_immediate":
            return isa.Register(_field_value(word, fields[spec.field]) + table.file_base(spec.file))
        case "memory":
            base = _field_value(word, fields[spec.base_field]) + table.file_base(spec.file)
            return isa.Memory(_number(word, fields[spec.field], spec), isa.Register(base))
        case "immediate" | "target":
            return _number(word, fields[spec.field], spec)


def _field_value(word: int, field: BitField) -> int:
    return word >> field.low_bit & ((1 << field.width_bits) - 1)


def _number(word: int, field: BitField, spec: OperandSpec) -> int:
    value = _field_value(word, field)
    negative = spec.signed and value >> field.width_bits - 1
    return value - (1 << field.width_bits) if negative else value


@lru_cache(maxsize=16)
def no_operation_word(table: isa.InstructionTable) -> bytes:
    """The bytes of the instruction that does nothing; zeros if the table has none."""
    for spec in table.instructions:
        if spec.effect is isa.Effect.NO_OPERATION and not table.operands_of(spec):
            return encode(isa.make_instruction(table, spec.mnemonic))
    return bytes(table.word_bits // 8)
