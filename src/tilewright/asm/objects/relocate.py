"""Values of symbols put into instructions, by the second pass and by the linker."""

from __future__ import annotations

from dataclasses import replace

from tilewright.asm.objects.object import Relocation, RelocationKind
from tilewright.asm.text.expression import ExpressionValue, half_of
from tilewright.common.errors import AssemblyError
from tilewright.isa import Instruction, InstructionTable, Memory, Operand, SymbolReference
from tilewright.isa.operand_rules import immediate_range

_KIND_OF_PART = {"": RelocationKind.OPERAND, "hi": RelocationKind.HIGH, "lo": RelocationKind.LOW}
_PART_OF_KIND = {kind: part for part, kind in _KIND_OF_PART.items()}
DATA_KINDS = {
    1: RelocationKind.DATA8,
    2: RelocationKind.DATA16,
    4: RelocationKind.DATA32,
    8: RelocationKind.DATA64,
}
DATA_BYTES = {kind: size for size, kind in DATA_KINDS.items()}


def label_of(operand: Operand) -> SymbolReference | None:
    """The label in an operand, if it has one."""
    match operand:
        case SymbolReference():
            return operand
        case Memory(SymbolReference() as label, _):
            return label
        case _:
            return None


def relocation_kind(instruction: Instruction, index: int, label: SymbolReference) -> RelocationKind:
    """Kind of relocation for an operand that holds a label."""
    if instruction.table.operands_of(instruction.spec)[index].kind == "target":
        return RelocationKind.TARGET
    return _KIND_OF_PART[label.part]


def unit_bytes(kind: int, table: InstructionTable) -> int:
    """Bytes per unit of an addend: the table's unit of addresses in operands, 1 elsewhere."""
    return table.address_bytes if kind in _PART_OF_KIND else 1


def relocated_value(kind: RelocationKind, target: int, place: int, table: InstructionTable) -> int:
    """The operand for a symbol at `target` (addend included) in an instruction at `place`, both in
    bytes.

    Raises AssemblyError.
    """
    word_bytes, target = table.word_bits // 8, target // unit_bytes(kind, table)
    match kind:
        case RelocationKind.TARGET:
            distance = target - place - word_bytes
            if distance % word_bytes:
                raise AssemblyError(
                    f"branch target {target:#x} is not aligned to {word_bytes} bytes",
                    fix=f"write .balign {word_bytes} before the label",
                )
            return distance // word_bytes
        case RelocationKind.HIGH:
            return half_of(ExpressionValue(target), "hi").offset
        case RelocationKind.LOW:
            return half_of(ExpressionValue(target), "lo").offset
        case _:
            return target


def with_operand(instruction: Instruction, index: int, value: int) -> Instruction:
    """The instruction with a number put into an operand. Raises AssemblyError if out of range."""
    table, spec = instruction.table, instruction.spec
    operand_spec = table.operands_of(spec)[index]
    low, high = immediate_range(table, spec, operand_spec)
    if not low <= value <= high:
        what, unit = ("branch", " instructions") if operand_spec.kind == "target" else ("value", "")
        raise AssemblyError(
            f"{what} of {value}{unit} is outside {low} .. {high} of {spec.mnemonic}",
            fix="move the two closer together"
            if operand_spec.kind == "target"
            else "use hi() and lo()",
        )
    return _replaced(instruction, index, value)


def without_labels(instruction: Instruction) -> Instruction:
    """The instruction with 0 for every label, as it is encoded before linking."""
    for index, operand in enumerate(instruction.operands):
        if label_of(operand) is not None:
            instruction = _replaced(instruction, index, 0)
    return instruction


def _replaced(instruction: Instruction, index: int, value: int | SymbolReference) -> Instruction:
    operands = list(instruction.operands)
    old = operands[index]
    operands[index] = Memory(value, old.base) if isinstance(old, Memory) else value
    return replace(instruction, operands=tuple(operands))


def symbolic(
    instruction: Instruction, relocation: Relocation | None, labels: tuple[str, ...]
) -> Instruction:
    """A decoded instruction with its labels, and with the symbol that a relocation puts into it."""
    instruction = replace(instruction, labels=labels)
    if relocation is None:
        return instruction
    if relocation.operand >= len(instruction.operands):
        raise AssemblyError(f"{instruction.mnemonic} has no operand {relocation.operand}")
    label = SymbolReference(
        relocation.symbol, relocation.addend, _PART_OF_KIND.get(relocation.kind, "")
    )
    return _replaced(instruction, relocation.operand, label)
