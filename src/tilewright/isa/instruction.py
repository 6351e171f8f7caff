"""A parsed instruction: the value that the assembler, the schedulers and the simulator exchange.

In: a table, a mnemonic and operands. Out: a checked, frozen `Instruction`. Errors are
`AssemblyError`s without a position; the reader of the text adds it.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct

from tilewright.common.errors import AssemblyError, MachineError
from tilewright.isa.effects import Branch, Traits
from tilewright.isa.operand_rules import OperandRule, immediate_range, operand_rules_of
from tilewright.isa.table import InstructionSpec, InstructionTable, OperandSpec


class Register(Struct, frozen=True, gc=False):
    """A register by its number in the table, which numbers all files consecutively."""

    number: int


class SymbolReference(Struct, frozen=True, gc=False):
    """A symbol not yet resolved, plus an offset; `part` names a piece of its value ("hi", "lo")."""

    name: str
    addend: int = 0
    part: str = ""

    def __str__(self) -> str:
        text = f"{self.name}{self.addend:+d}" if self.addend else self.name
        return f"{self.part}({text})" if self.part else text


class Memory(Struct, frozen=True, gc=False):
    """`displacement(base)`: the address base + displacement, in bytes."""

    displacement: int | SymbolReference
    base: Register


Operand: TypeAlias = Register | int | SymbolReference | Memory


@dataclass(frozen=True)
class Instruction:
    """One instruction with its operands in written order.

    `labels` are the labels of its address, `line` is the source line (0 = none). An integer target
    counts instructions from the following one. `make_instruction` constructs it and checks the
    operands.
    """

    table: InstructionTable = field(compare=False, repr=False)
    spec: InstructionSpec
    operands: tuple[Operand, ...]
    labels: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)

    @property
    def mnemonic(self) -> str:
        """The instruction's own name; an alias has been replaced."""
        return self.spec.mnemonic

    @property
    def traits(self) -> Traits:
        """Operand roles, memory accesses and ordering of the instruction's effect."""
        return self.spec.effect.traits

    @property
    def units(self) -> tuple[str, ...]:
        """The units that can execute the instruction."""
        return self.spec.units

    @property
    def latency_cycles(self) -> int:
        """Cycles from issue until the result can be read."""
        return self.spec.latency_cycles

    @cached_property
    def by_role(self) -> dict[str, Operand]:
        """The operands by the effect's argument names."""
        specs = self.table.operands_of(self.spec)
        return {spec.role: operand for spec, operand in zip(specs, self.operands, strict=True)}

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Numbers of the registers that it reads, each once, without zero registers."""
        return self._registers(("read", "read_write"), bases=True)

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """Numbers of the registers that it writes, each once, without zero registers."""
        return self._registers(("write", "read_write"), bases=False)

    def on(self, table: InstructionTable) -> Instruction:
        """This instruction with the timing of another table of the same instruction set.

        Errors: MachineError for a table of another instruction set.
        """
        if self.table is table:
            return self
        if self.table.instruction_set != table.instruction_set:
            raise MachineError(
                f"an instruction of {self.table.instruction_set} has no timing in {table.name}"
            )
        return replace(self, table=table, spec=table.by_mnemonic[self.mnemonic])

    def _registers(self, accesses: tuple[str, ...], *, bases: bool) -> tuple[int, ...]:
        found: dict[int, None] = {}
        specs = self.table.operands_of(self.spec)
        for spec, operand in zip(specs, self.operands, strict=True):
            if isinstance(operand, Register) and spec.access in accesses:
                found[operand.number] = None
            elif isinstance(operand, Memory) and bases:
                found[operand.base.number] = None
        return tuple(number for number in found if number not in self.table.zero_registers)

    @property
    def memory(self) -> Memory | None:
        """The memory operand of a load or store; None otherwise, also for address arithmetic."""
        traits = self.traits
        operand = self.by_role.get("memory") if traits.load or traits.store else None
        return operand if isinstance(operand, Memory) else None

    @property
    def target(self) -> SymbolReference | int | None:
        """A branch's target: a label, or a distance in instructions from the next; else None."""
        operand = self.by_role.get("target")
        return operand if isinstance(operand, SymbolReference | int) else None

    @property
    def is_branch(self) -> bool:
        """True if it may change the program counter (halt included)."""
        return self.traits.branch is not Branch.NONE

    def text(self) -> str:
        """The instruction as assembly text, without labels."""
        specs = self.table.operands_of(self.spec)
        written = tuple(zip(specs, self.operands, strict=True))
        if self.spec.syntax:
            texts = {spec.role: _operand_text(self.table, spec, op) for spec, op in written}
            return self.spec.syntax.format_map(texts)
        operands = ", ".join(_operand_text(self.table, spec, operand) for spec, operand in written)
        return f"{self.mnemonic} {operands}" if operands else self.mnemonic


def _operand_text(table: InstructionTable, spec: OperandSpec, operand: Operand) -> str:
    match operand:
        case Register(number):
            return table.register_names[number]
        case Memory(displacement, base):
            return table.dialect.memory_text(displacement, table.register_names[base.number])
        case SymbolReference() | int():
            mark = "" if spec.kind == "target" else table.dialect.immediate
            return f"{mark}{operand}"


def make_instruction(
    table: InstructionTable,
    mnemonic: str,
    operands: Sequence[Operand] = (),
    *,
    labels: tuple[str, ...] = (),
    line: int = 0,
) -> Instruction:
    """A checked instruction, with aliases resolved. Errors: AssemblyError."""
    alias = table.alias_by_mnemonic.get((mnemonic, len(operands)))
    if alias is not None:
        operands = [_alias_operand(table, part, operands) for part in alias.operands]
    rules = operand_rules_of(table).get(mnemonic if alias is None else alias.instruction)
    if rules is None:
        raise _unknown_mnemonic(table, mnemonic, len(operands))
    if len(rules.operands) != len(operands):
        raise AssemblyError(_wrong_count(table, mnemonic, len(operands)))
    for rule, operand in zip(rules.operands, operands, strict=True):
        if not _accepts(rule, operand):
            _refuse_operand(table, rules.spec, rule.spec, operand)
    return Instruction(table, rules.spec, tuple(operands), labels, line)


def _accepts(rule: OperandRule, operand: Operand) -> bool:
    """True if the operand has a kind and a range that `rule` accepts."""
    match operand:
        case Register():
            return rule.takes_register and operand.number in rule.registers
        case int():
            return not rule.takes_memory and operand in rule.numbers
        case SymbolReference():
            return rule.takes_label
        case Memory():
            place, is_number = operand.displacement, isinstance(operand.displacement, int)
            return (
                rule.takes_memory
                and operand.base.number in rule.registers
                and (not is_number or place in rule.numbers)
            )


def _alias_operand(table: InstructionTable, part: int | str, given: Sequence[Operand]) -> Operand:
    if isinstance(part, int):
        return given[part]
    if part in table.register_numbers:
        return Register(table.register_numbers[part])
    return int(part)


def _unknown_mnemonic(table: InstructionTable, mnemonic: str, count: int) -> AssemblyError:
    if mnemonic in table.known_mnemonics:
        return AssemblyError(_wrong_count(table, mnemonic, count))
    close = difflib.get_close_matches(mnemonic, table.mnemonics, n=1)
    fix = f"did you mean '{close[0]}'?" if close else ""
    return AssemblyError(f"unknown instruction '{mnemonic}' in {table.name}", fix=fix)


def _wrong_count(table: InstructionTable, mnemonic: str, count: int) -> str:
    """The error that lists the operands of each form, shorter first, and the number given."""
    spec = table.by_mnemonic.get(mnemonic)
    operands = table.operands_of(spec) if spec else None
    forms = {len(operands): operands} if operands is not None else {}
    for alias in table.aliases:
        if alias.mnemonic == mnemonic:
            specs = table.operands_of(table.by_mnemonic[alias.instruction])
            by_place: dict[int | str, OperandSpec] = {}
            for place, spec_of_place in zip(alias.operands, specs, strict=True):
                if place not in by_place or spec_of_place.access == "write":
                    by_place[place] = spec_of_place
            forms[alias.arguments] = tuple(by_place[place] for place in range(alias.arguments))
    sizes = sorted(forms)
    noun = "operand" if sizes[0] == 1 else "operands"
    texts = [
        f"{size}{f' {noun}' if size == sizes[0] else ''} ({_signature(table, forms[size])})"
        for size in sizes
    ]
    return f"{mnemonic} takes {' or '.join(texts)}, {count} given"


def _signature(table: InstructionTable, specs: Sequence[OperandSpec]) -> str:
    return ", ".join(_memory_form(table) if s.kind == "memory" else s.role for s in specs)


def _memory_form(table: InstructionTable) -> str:
    return table.dialect.memory_text("displacement", "base")


def _refuse_operand(
    table: InstructionTable, spec: InstructionSpec, operand_spec: OperandSpec, operand: Operand
) -> None:
    """Raise the AssemblyError that explains why an operand is refused."""
    label = f"{spec.mnemonic}: operand {operand_spec.role}"
    match operand_spec.kind, operand:
        case (("register" | "register_or_immediate"), Register(number)):
            _check_register(table, operand_spec, number, label)
        case (("immediate" | "register_or_immediate"), int(value)):
            _check_range(table, spec, operand_spec, value, label)
        case (("immediate" | "register_or_immediate" | "target"), SymbolReference()):
            pass
        case "target", int(value):
            _check_range(table, spec, operand_spec, value, label)
        case "memory", Memory(displacement, base):
            _check_register(table, operand_spec, base.number, label)
            if isinstance(displacement, int):
                _check_range(table, spec, operand_spec, displacement, label)
        case kind, _:
            expected = {"memory": _memory_form(table), "target": "label"}.get(kind, kind)
            is_number = isinstance(operand, SymbolReference | int)
            got = str(operand) if is_number else _operand_text(table, operand_spec, operand)
            raise AssemblyError(f"{label} must be a {expected.replace('_', ' ')}, not {got}")


def _check_register(
    table: InstructionTable, operand_spec: OperandSpec, number: int, label: str
) -> None:
    base = table.file_base(operand_spec.file)
    file = next(f for f in table.register_files if operand_spec.file in ("", f.name))
    if not base <= number < base + file.count:
        raise AssemblyError(f"{label} must be a register of file '{file.name}'")


def _check_range(
    table: InstructionTable,
    spec: InstructionSpec,
    operand_spec: OperandSpec,
    value: int,
    label: str,
) -> None:
    low, high = immediate_range(table, spec, operand_spec)
    if not low <= value <= high:
        raise AssemblyError(f"{label} = {value} is outside {low} .. {high}")
