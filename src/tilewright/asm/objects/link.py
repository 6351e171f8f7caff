"""Linking: objects become one image with addresses and without relocations.

Sections of equal name are joined in the order of the objects. Data and zeros start at address 0 of
the core's local memory, and code follows it, so that addresses are unambiguous. The second pass and
the linker share the code that puts values of symbols into instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from tilewright.asm.encode import decode, encode
from tilewright.asm.objects.sections import (
    LineEntry,
    Object,
    ObjectSection,
    PlacedInstruction,
    Relocation,
    RelocationKind,
    Symbol,
)
from tilewright.asm.suggest import did_you_mean
from tilewright.asm.text.expression import ExpressionValue, half_of
from tilewright.common.errors import AssemblyError
from tilewright.isa import Instruction, InstructionTable, Memory, Operand, SymbolReference
from tilewright.isa.operand_rules import immediate_range
from tilewright.isa.table import LocalMemory

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
    """Kind of relocation for an operand with a label."""
    if instruction.table.operands_of(instruction.spec)[index].kind == "target":
        return RelocationKind.TARGET
    return _KIND_OF_PART[label.part]


def unit_bytes(kind: int, table: InstructionTable) -> int:
    """Bytes per unit of an addend: the table's unit of addresses in operands, 1 elsewhere."""
    return table.address_bytes if kind in _PART_OF_KIND else 1


def relocated_value(kind: RelocationKind, target: int, place: int, table: InstructionTable) -> int:
    """The operand for a symbol at `target` (addend included) in an instruction at `place`, both
    byte addresses.

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
    """The instruction with 0 for every label, as encoded before linking."""
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
    """A decoded instruction with its labels, and with the symbol of its relocation."""
    instruction = replace(instruction, labels=labels)
    if relocation is None:
        return instruction
    if relocation.operand >= len(instruction.operands):
        raise AssemblyError(f"{instruction.mnemonic} has no operand {relocation.operand}")
    label = SymbolReference(
        relocation.symbol, relocation.addend, _PART_OF_KIND.get(relocation.kind, "")
    )
    return _replaced(instruction, relocation.operand, label)


class LinkErrors(AssemblyError):
    """All errors that keep objects from being linked; `message` and `fix` are the first one's."""

    def __init__(self, errors: Sequence[AssemblyError]) -> None:
        first = errors[0]
        super().__init__(first.message, where=first.where, fix=first.fix)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


@dataclass(slots=True)
class _OutputSection:
    """An output section being filled."""

    name: str
    flags: str
    nobits: bool
    data: bytearray = field(default_factory=bytearray)
    size_bytes: int = 0
    alignment_bytes: int = 1
    address: int = 0


@dataclass(slots=True)
class _Linker:
    """The state of one link; offsets of object i in section s are shifted by `shifts[i, s]`."""

    objects: Sequence[Object]
    table: InstructionTable
    sections: dict[str, _OutputSection] = field(default_factory=dict)
    shifts: dict[tuple[int, str], int] = field(default_factory=dict)
    defined: list[dict[str, Symbol]] = field(default_factory=list)
    globals: dict[str, tuple[int, Symbol]] = field(default_factory=dict)
    errors: list[AssemblyError] = field(default_factory=list)

    def join(self, index: int, section: ObjectSection) -> None:
        """Append a section of an object to the output section of its name."""
        joined = self.sections.setdefault(
            section.name, _OutputSection(section.name, section.flags, section.nobits)
        )
        if (set(joined.flags), joined.nobits) != (set(section.flags), section.nobits):
            self._error(index, f"section {section.name} has other flags than in another object")
            return
        joined.alignment_bytes = max(joined.alignment_bytes, section.alignment_bytes)
        joined.size_bytes += -joined.size_bytes % section.alignment_bytes
        self.shifts[index, section.name] = joined.size_bytes
        joined.size_bytes += section.size_bytes
        if not section.nobits:
            joined.data += bytes(self.shifts[index, section.name] - len(joined.data)) + section.data

    def collect_symbols(self, index: int) -> None:
        """Collect an object's symbols, local and global."""
        defined = {s.name: s for s in self.objects[index].symbols if s.section is not None}
        self.defined.append(defined)
        for symbol in defined.values():
            if not symbol.is_global:
                continue
            known = self.globals.get(symbol.name)
            if known is not None:
                first = self.objects[known[0]].file_name
                self._error(index, f"'{symbol.name}' is also defined in {first}")
            else:
                self.globals[symbol.name] = (index, symbol)

    def address(self, index: int, symbol: Symbol) -> int:
        """The final address of a defined symbol."""
        if not symbol.section:
            return symbol.value
        return self.sections[symbol.section].address + self.offset(index, symbol)

    def offset(self, index: int, symbol: Symbol) -> int:
        """The final offset of a symbol in its section."""
        return symbol.value + self.shifts[index, symbol.section or ""]

    def target(self, index: int, name: str) -> int | None:
        """The address of a name in an object: its own symbol, or another object's global one."""
        if (index, name) in self.shifts:
            return self.sections[name].address + self.shifts[index, name]
        own = self.defined[index].get(name)
        if own is not None:
            return self.address(index, own)
        found = self.globals.get(name)
        return None if found is None else self.address(*found)

    def relocate(self, index: int, relocation: Relocation) -> None:
        """Resolve one relocation."""
        joined = self.sections[relocation.section]
        offset = relocation.offset + self.shifts[index, relocation.section]
        base = self.target(index, relocation.symbol)
        where = f"{relocation.section}+{relocation.offset:#x}"
        if base is None:
            fix = did_you_mean(relocation.symbol, self.globals)
            self._error(index, f"undefined symbol '{relocation.symbol}' at {where}", fix)
            return
        try:
            target = base + relocation.addend * unit_bytes(relocation.kind, self.table)
            written = self._filled(relocation, joined, offset, target)
            joined.data[offset : offset + len(written)] = written
        except AssemblyError as error:
            self._error(index, f"'{relocation.symbol}' at {where}: {error.message}", error.fix)

    def _filled(
        self, relocation: Relocation, joined: _OutputSection, offset: int, target: int
    ) -> bytes:
        size = DATA_BYTES.get(relocation.kind)
        if size is not None:
            if not -(1 << 8 * size - 1) <= target < 1 << 8 * size:
                raise AssemblyError(f"address {target:#x} does not fit {size} bytes")
            return (target % (1 << 8 * size)).to_bytes(size, self.table.byte_order)
        word_bytes = self.table.word_bits // 8
        instruction = decode(bytes(joined.data[offset : offset + word_bytes]), self.table)
        if instruction is None or relocation.operand >= len(instruction.operands):
            raise AssemblyError("there is no instruction to relocate")
        place = joined.address + offset
        value = relocated_value(RelocationKind(relocation.kind), target, place, self.table)
        return encode(with_operand(instruction, relocation.operand, value))

    def _error(self, index: int, message: str, fix: str = "") -> None:
        where = self.objects[index].file_name
        self.errors.append(AssemblyError(message, where=where, fix=fix))


def link(
    objects: Sequence[Object],
    table: InstructionTable,
    *,
    data_address: int = 0,
    code_address: int | None = None,
) -> Object:
    """The image of some objects.

    In each local memory, data starts at byte `data_address`; code starts at `code_address` (by
    default after the largest memory). Errors: LinkErrors with every undefined or doubly defined
    symbol and every value that does not fit.
    """
    _check_tables(objects, table)
    linker = _Linker(objects, table)
    for index, source in enumerate(objects):
        for section in source.sections:
            linker.join(index, section)
        linker.collect_symbols(index)
    _raise(linker)
    _place(linker, data_address, code_address)
    for index, source in enumerate(objects):
        for relocation in source.relocations:
            linker.relocate(index, relocation)
    _raise(linker)
    return _image(linker)


def _check_tables(objects: Sequence[Object], table: InstructionTable) -> None:
    if not objects:
        raise AssemblyError("nothing to link", fix="give at least one object")
    for source in objects:
        if source.instruction_set != table.instruction_set:
            raise AssemblyError(
                f"the object is for {source.instruction_set}, not for {table.instruction_set}",
                where=source.file_name,
            )
        if source.is_linked:
            raise AssemblyError("it is linked already", where=source.file_name)


def _raise(linker: _Linker) -> None:
    if linker.errors:
        raise LinkErrors(linker.errors)


def _place(linker: _Linker, data_address: int, code_address: int | None) -> None:
    """Assign an address to every section; data must fit the memory of its section."""
    table = linker.table
    code = [s for s in linker.sections.values() if "x" in s.flags]
    behind = 0
    for memory in table.memories or (table.memory(),):
        data = [s for s in linker.sections.values() if _is_in(s, memory, table)]
        end = _place_in_order(data, data_address)
        capacity = memory.capacity_bytes
        if capacity and end > capacity:
            raise AssemblyError(
                f"data and zeros end at {end} bytes, the {table.memory_title(memory)} has "
                f"{capacity}",
                fix=f"save {end - capacity} bytes",
            )
        behind = max(behind, end, capacity)
    _place_in_order(code, behind if code_address is None else code_address)


def _is_in(section: _OutputSection, memory: LocalMemory, table: InstructionTable) -> bool:
    style = table.dialect.section_style(section.name)
    return "x" not in section.flags and table.memory(style.memory) == memory


def _place_in_order(sections: Sequence[_OutputSection], address: int) -> int:
    for section in sections:
        address += -address % section.alignment_bytes
        section.address = address
        address += section.size_bytes
    return address


def _image(linker: _Linker) -> Object:
    first = linker.objects[0]
    sections = tuple(_section(joined) for joined in linker.sections.values())
    return Object(
        first.instruction_set,
        first.byte_order,
        first.word_bytes,
        first.file_name,
        sections,
        tuple(s for i in range(len(linker.objects)) for s in _symbols(linker, i)),
        (),
        tuple(e for i in range(len(linker.objects)) for e in _lines(linker, i)),
        _instructions(linker, {section.name: section for section in sections}),
        is_linked=True,
        elf_machine=first.elf_machine,
    )


def _section(joined: _OutputSection) -> ObjectSection:
    return ObjectSection(
        joined.name,
        joined.flags,
        bytes(joined.data),
        joined.size_bytes,
        joined.alignment_bytes,
        joined.nobits,
        joined.address,
    )


def _symbols(linker: _Linker, index: int) -> list[Symbol]:
    """The object's own symbols at their final offsets."""
    return [
        replace(s, value=linker.offset(index, s)) if s.section else s
        for s in linker.objects[index].symbols
        if s.section is not None
    ]


def _lines(linker: _Linker, index: int) -> list[LineEntry]:
    return [
        structs.replace(entry, offset=entry.offset + linker.shifts.get((index, entry.section), 0))
        for entry in linker.objects[index].lines
    ]


def _instructions(
    linker: _Linker, sections: dict[str, ObjectSection]
) -> tuple[PlacedInstruction, ...]:
    """The instructions, section by section, with symbols resolved; labels and lines are kept."""
    word_bytes, placed = linker.table.word_bits // 8, []
    for index, source in enumerate(linker.objects):
        for old in source.instructions:
            offset = old.offset + linker.shifts[index, old.section]
            data = sections[old.section].data[offset : offset + word_bytes]
            new = decode(data, linker.table) or old.instruction
            new = replace(new, labels=old.instruction.labels, line=old.instruction.line)
            placed.append(PlacedInstruction(old.section, offset, new))
    order = {name: number for number, name in enumerate(sections)}
    return tuple(sorted(placed, key=lambda p: (order[p.section], p.offset)))
