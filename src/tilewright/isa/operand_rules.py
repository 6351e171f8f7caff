"""Operand kinds, ranges and bit fields of a table's instructions, looked up once.

In: a table. Out: `InstructionRules` by mnemonic, for the two steps of the assembler on every line:
checking operands and encoding them. Messages are derived from the table itself, elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.isa.table import (
    BitField,
    InstructionSpec,
    InstructionTable,
    OperandSpec,
    fixed_bits,
)

_NOTHING = range(0)
_NO_FIELD = BitField(0, 0)


@dataclass(frozen=True, slots=True)
class OperandRule:
    """One operand: the registers and numbers that it accepts, and the fields for them.

    `registers` are numbers of the table; the field holds the number relative to `first`. A memory
    operand has a register as its base. `flag_bits` are set if a number replaces a register.
    """

    spec: OperandSpec
    registers: range
    numbers: range
    takes_register: bool
    takes_label: bool
    takes_memory: bool
    first: int
    register_low_bit: int
    number_low_bit: int
    number_mask: int
    flag_bits: int

    def register_bits(self, number: int) -> int:
        """The encoded bits of a register."""
        return (number - self.first) << self.register_low_bit

    def number_bits(self, value: int) -> int:
        """The encoded bits of a number."""
        return (value & self.number_mask) << self.number_low_bit | self.flag_bits


@dataclass(frozen=True, slots=True)
class InstructionRules:
    """An instruction: the bits common to all its words, and its operands in written order."""

    spec: InstructionSpec
    constant_bits: int
    operands: tuple[OperandRule, ...]


@lru_cache(maxsize=32)
def operand_rules_of(table: InstructionTable) -> dict[str, InstructionRules]:
    """The rules of each instruction by mnemonic."""
    return {
        spec.mnemonic: InstructionRules(
            spec,
            fixed_bits(table, spec)[1],
            tuple(_rule(table, spec, operand) for operand in table.operands_of(spec)),
        )
        for spec in table.instructions
    }


def immediate_range(
    table: InstructionTable, spec: InstructionSpec, operand_spec: OperandSpec
) -> tuple[int, int]:
    """Smallest and largest immediate, displacement or target that the operand's bit field holds."""
    name = operand_spec.immediate_field or operand_spec.field
    width = table.fields_of(spec)[name].width_bits
    low, high = (
        (-(1 << width - 1), (1 << width - 1) - 1) if operand_spec.signed else (0, (1 << width) - 1)
    )
    minimum = low if operand_spec.minimum is None else operand_spec.minimum
    maximum = high if operand_spec.maximum is None else operand_spec.maximum
    return minimum, maximum


def _rule(table: InstructionTable, spec: InstructionSpec, operand: OperandSpec) -> OperandRule:
    fields, kind = table.fields_of(spec), operand.kind
    takes_register = kind in ("register", "register_or_immediate")
    registers, numbers = _NOTHING, _NOTHING
    first = 0
    if takes_register or kind == "memory":
        first = table.file_base(operand.file)
        file = next(f for f in table.register_files if operand.file in ("", f.name))
        registers = range(first, first + file.count)
    if kind != "register":
        low, high = immediate_range(table, spec, operand)
        numbers = range(low, high + 1)
    register_field = fields.get(operand.base_field or operand.field, _NO_FIELD)
    number_field = fields.get(operand.immediate_field or operand.field, _NO_FIELD)
    flag = fields.get(operand.flag_field, _NO_FIELD)
    return OperandRule(
        spec=operand,
        registers=registers,
        numbers=numbers,
        takes_register=takes_register,
        takes_label=kind in ("immediate", "register_or_immediate", "target"),
        takes_memory=kind == "memory",
        first=first,
        register_low_bit=register_field.low_bit,
        number_low_bit=number_field.low_bit,
        number_mask=(1 << number_field.width_bits) - 1,
        flag_bits=(1 << flag.low_bit) if operand.flag_field else 0,
    )
