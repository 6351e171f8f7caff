"""Disassembly: bytes or objects back to text that assembles to the same bytes.

Words that encode no instruction become `.word` numbers. Branch targets inside a section get labels;
relocations become symbols again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tilewright.asm.encode import decode
from tilewright.asm.objects.link import DATA_BYTES, symbolic
from tilewright.asm.objects.sections import Object, ObjectSection, Relocation, Symbol
from tilewright.asm.objects.symbols import HIDDEN_PREFIX
from tilewright.isa import Instruction, InstructionTable, SymbolReference

_BYTES_PER_ROW = 16
_LONG_RUN_BYTES = 32
_CHUNK_BYTES = 4096
_DATA_DIRECTIVES = {1: ".byte", 2: ".half", 4: ".word", 8: ".quad"}


def disassemble(source: bytes | Object, table: InstructionTable) -> str:
    """Text of code bytes, or of all sections of an object.

    Assembling the text gives the same section contents, symbols and relocations (for an image: the
    same contents).
    """
    if isinstance(source, bytes):
        step = table.word_bits // 8
        code = ObjectSection(table.dialect.code_section, "ax", source, len(source), step)
        source = Object(
            table.instruction_set,
            table.byte_order,
            step,
            "",
            (code,),
            (),
            elf_machine=table.elf_machine,
        )
    rows = list(_declarations(source))
    for section in source.sections:
        rows += _SectionText(source, section, table).rows()
    return "\n".join(rows) + "\n"


def _declarations(source: Object) -> Iterator[str]:
    for symbol in source.symbols:
        if symbol.section is None:
            yield f"\t.extern {symbol.name}"
        elif symbol.is_global:
            yield f"\t.globl {symbol.name}"
        if symbol.kind:
            yield f"\t.type {symbol.name}, @{symbol.kind}"
        if symbol.section == "":
            yield f"\t.set {symbol.name}, {symbol.value}"


@dataclass(slots=True)
class _SectionText:
    """One section being printed."""

    source: Object
    section: ObjectSection
    table: InstructionTable
    named: set[str] = field(default_factory=set)

    def rows(self) -> Iterator[str]:
        """The section's directive, its contents, and names whose address is inside a number."""
        yield self._opening()
        if self.section.alignment_bytes > 1:
            yield f"\t.balign {self.section.alignment_bytes}"
        yield from self._zeros() if self.section.nobits else self._contents()
        for symbol in self._symbols():
            if symbol.name not in self.named:
                self.named.add(symbol.name)
                yield f"\t.set {symbol.name}, {self.section.name}{symbol.value:+d}"
            if symbol.size_bytes:
                yield f"\t.size {symbol.name}, {symbol.size_bytes}"

    def _opening(self) -> str:
        section = self.section
        style = self.table.dialect.section_styles.get(section.name)
        if style and (set(style.flags), style.nobits) == (set(section.flags), section.nobits):
            return f"\t{section.name}"
        kind = "nobits" if section.nobits else "progbits"
        return f'\t.section {section.name}, "{section.flags}", @{kind}'

    def _symbols(self) -> list[Symbol]:
        return [symbol for symbol in self.source.symbols if symbol.section == self.section.name]

    def _labels_at(self, offset: int, labels: dict[int, list[str]]) -> Iterator[str]:
        """The labels at an offset, each name once: an image may have several locals of one name."""
        for name in labels.get(offset, ()):
            if name not in self.named:
                self.named.add(name)
                yield f"{name}:"

    def _zeros(self) -> Iterator[str]:
        """The rows of a section without bytes: labels with space between them."""
        labels = _by_offset(self._symbols())
        offset, end = 0, self.section.size_bytes
        for place in sorted({*(p for p in labels if 0 <= p <= end), end}):
            if place > offset:
                yield f"\t.space {place - offset}"
            yield from self._labels_at(place, labels)
            offset = place

    def _contents(self) -> Iterator[str]:
        step = self.table.word_bits // 8
        fixed = {r.offset: r for r in self.source.relocations if r.section == self.section.name}
        decoded = self._decoded(step, fixed) if self.section.is_code else {}
        labels = _by_offset(self._symbols())
        for target in self._targets(decoded, step, fixed):
            labels.setdefault(target, [f"{HIDDEN_PREFIX}{target:x}"])
        boundaries = sorted({*labels, *fixed, *decoded, self.section.size_bytes})
        offset = 0
        while offset < self.section.size_bytes:
            yield from self._labels_at(offset, labels)
            if offset in decoded:
                yield f"\t{_instruction_text(decoded[offset], offset, step, labels)}"
                offset += step
            elif offset in fixed and fixed[offset].kind in DATA_BYTES:
                relocation = fixed[offset]
                size = DATA_BYTES[relocation.kind]
                reference = SymbolReference(relocation.symbol, relocation.addend)
                yield f"\t{_DATA_DIRECTIVES[size]} {reference}"
                offset += size
            else:
                end = boundaries[bisect_right(boundaries, offset)]
                yield from self._numbers(offset, end, step)
                offset = end
        yield from self._labels_at(offset, labels)

    def _decoded(self, step: int, fixed: dict[int, Relocation]) -> dict[int, Instruction]:
        """The words that are instructions, with the symbols of their relocations."""
        found: dict[int, Instruction] = {}
        data, offset = self.section.data, 0
        while offset + step <= len(data):
            relocation = fixed.get(offset)
            if relocation is not None and relocation.kind in DATA_BYTES:
                offset += max(step, DATA_BYTES[relocation.kind])
                continue
            instruction = decode(data[offset : offset + step], self.table)
            inside = any(offset + i in fixed for i in range(1, step))
            if instruction is not None and not inside:
                found[offset] = symbolic(instruction, relocation, ())
            offset += step
        return found

    def _targets(
        self, decoded: dict[int, Instruction], step: int, fixed: dict[int, Relocation]
    ) -> Iterator[int]:
        """Targets of the section's branches at which a label can be placed."""
        covered = {
            offset + i
            for offset, relocation in fixed.items()
            for i in range(1, DATA_BYTES.get(relocation.kind, 1))
        }
        for offset, instruction in decoded.items():
            if isinstance(instruction.target, int):
                target = offset + step * (1 + instruction.target)
                if 0 <= target <= self.section.size_bytes and target not in covered:
                    yield target

    def _numbers(self, offset: int, end: int, step: int) -> Iterator[str]:
        """Rows for bytes that are no instruction: whole words in code, else single bytes."""
        data, order = self.section.data, self.table.byte_order
        if self.section.is_code and (end - offset) % step == 0 and step in _DATA_DIRECTIVES:
            for at in range(offset, end, step):
                number = int.from_bytes(data[at : at + step], order)
                yield f"\t{_DATA_DIRECTIVES[step]} {number:#0{2 * step + 2}x}"
            return
        while offset < end:
            length = _equal_bytes(data, offset, end)
            if length >= _LONG_RUN_BYTES:
                fill = f", {data[offset]:#04x}" if data[offset] else ""
                yield f"\t.space {length}{fill}"
                offset += length
                continue
            row = data[offset : min(offset + _BYTES_PER_ROW, end)]
            yield f"\t.byte {', '.join(f'{byte:#04x}' for byte in row)}"
            offset += len(row)


def _equal_bytes(data: bytes, offset: int, end: int) -> int:
    """Number of equal bytes from `offset` on."""
    first, length = data[offset : offset + 1], 0
    while chunk := data[offset + length : min(offset + length + _CHUNK_BYTES, end)]:
        rest = chunk.lstrip(first)
        length += len(chunk) - len(rest)
        if rest:
            break
    return length


def _by_offset(symbols: Sequence[Symbol]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for symbol in symbols:
        found.setdefault(symbol.value, []).append(symbol.name)
    return found


def _instruction_text(
    instruction: Instruction, offset: int, step: int, labels: dict[int, list[str]]
) -> str:
    """The text of an instruction, with a label as a branch's target if there is one."""
    if isinstance(instruction.target, int):
        target = labels.get(offset + step * (1 + instruction.target))
        if target is not None:
            operands = tuple(
                SymbolReference(target[0]) if spec.kind == "target" else operand
                for spec, operand in zip(
                    instruction.table.operands_of(instruction.spec),
                    instruction.operands,
                    strict=True,
                )
            )
            return replace(instruction, operands=operands).text()
    return instruction.text()
