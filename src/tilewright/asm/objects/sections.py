"""Objects, which the assembler makes, the linker joins and ELF files store; and sections under
construction: sizes and items, which the second pass turns into bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from msgspec import Struct

from tilewright.asm.diagnostics import FatalFault, Fault, SourceError, SourceLine, Span
from tilewright.asm.limits import Limits
from tilewright.asm.text.expression import ParsedLine, ParsedOperand
from tilewright.common.errors import AssemblyError
from tilewright.isa import Dialect, Instruction
from tilewright.isa.table import UNOFFICIAL_ELF_MACHINE


class RelocationKind(IntEnum):
    """Values that the linker writes; S is a symbol's address, A the addend, P the written address.

    DATA8 .. DATA64 are numbers of that many bits; OPERAND, HIGH and LOW go into an instruction's
    operand (all of S + A, or a half); TARGET is a branch distance in instructions.
    """

    DATA8 = 1
    DATA16 = 2
    DATA32 = 3
    DATA64 = 4
    OPERAND = 5
    HIGH = 6
    LOW = 7
    TARGET = 8


@dataclass(frozen=True, slots=True)
class ObjectSection:
    """A section; `data` is empty for nobits. `address` is set by the linker."""

    name: str
    flags: str
    data: bytes
    size_bytes: int
    alignment_bytes: int = 1
    nobits: bool = False
    address: int = 0

    @property
    def is_code(self) -> bool:
        """True if it holds instructions."""
        return "x" in self.flags


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name: `value` is an offset in `section`, a number if that is ""; undefined if None."""

    name: str
    section: str | None
    value: int
    is_global: bool = False
    kind: str = ""
    size_bytes: int = 0


class Relocation(Struct, frozen=True, gc=False):
    """A value that the linker fills in; in an instruction, `operand` is the operand's index."""

    section: str
    offset: int
    kind: RelocationKind
    symbol: str
    addend: int = 0
    operand: int = 0


class LineEntry(Struct, frozen=True, gc=False):
    """A source line and its bytes.

    `depth` counts the expansions around it, and `origin` names the innermost; `debug_place` is the
    position given by `.loc`.
    """

    section: str
    offset: int
    size_bytes: int
    file: str
    number: int
    text: str
    depth: int = 0
    debug_place: tuple[str, int] | None = None
    origin: str = ""

    @property
    def shown_place(self) -> tuple[str, int]:
        """The (file, line) that a debugger shows."""
        return self.debug_place or (self.file, self.number)


class PlacedInstruction(Struct, frozen=True, gc=False):
    """An instruction of the source at its offset; after linking, all operands are numbers."""

    section: str
    offset: int
    instruction: Instruction


@dataclass(frozen=True, slots=True)
class Object:
    """An assembled source, or (`is_linked`) an image with addresses and without relocations.

    `instruction_set`, `byte_order`, `word_bytes` (an instruction's size) and `elf_machine` are the
    instruction table's; `file_name` names the source.
    """

    instruction_set: str
    byte_order: Literal["little", "big"]
    word_bytes: int
    file_name: str
    sections: tuple[ObjectSection, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...] = ()
    lines: tuple[LineEntry, ...] = ()
    instructions: tuple[PlacedInstruction, ...] = ()
    is_linked: bool = False
    elf_machine: int = UNOFFICIAL_ELF_MACHINE

    def section(self, name: str) -> ObjectSection:
        """A section by name. Raises AssemblyError."""
        for section in self.sections:
            if section.name == name:
                return section
        raise AssemblyError(f"{self.file_name} has no section {name}")

    def symbol(self, name: str) -> Symbol:
        """A symbol by name. Raises AssemblyError."""
        for symbol in self.symbols:
            if symbol.name == name:
                return symbol
        raise AssemblyError(f"{self.file_name} has no symbol '{name}'")

    def address_of(self, name: str) -> int:
        """A symbol's address (before linking: its offset in the section). Raises AssemblyError."""
        symbol = self.symbol(name)
        if symbol.section is None:
            raise AssemblyError(f"symbol '{name}' of {self.file_name} is undefined")
        base = self.section(symbol.section).address if symbol.section else 0
        return base + symbol.value


class CodeItem(Struct, frozen=True, gc=False):
    """An instruction to be encoded at `offset`, with the `labels` there."""

    offset: int
    order: int
    line: SourceLine
    parsed: ParsedLine
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NumberItem:
    """Numbers of `unit_bytes` each, integers or (`real`) floating point."""

    offset: int
    order: int
    line: SourceLine
    operands: tuple[ParsedOperand, ...]
    unit_bytes: int
    real: bool


@dataclass(frozen=True, slots=True)
class ByteItem:
    """Known bytes; zeros need no item."""

    offset: int
    data: bytes


Item = CodeItem | NumberItem | ByteItem


@dataclass(slots=True)
class SectionBuilder:
    """One section: flags as in `.section` ("a" allocated, "w" writable, "x" code), size, items."""

    name: str
    flags: str
    nobits: bool
    size_bytes: int = 0
    alignment_bytes: int = 1
    items: list[Item] = field(default_factory=list)
    pending_labels: list[str] = field(default_factory=list)

    @property
    def is_code(self) -> bool:
        """True if it may contain instructions."""
        return "x" in self.flags


@dataclass(slots=True)
class SectionSet:
    """The sections of a source and the one that is being filled."""

    dialect: Dialect
    limits: Limits
    by_name: dict[str, SectionBuilder] = field(default_factory=dict)
    current: SectionBuilder = field(init=False)
    total_bytes: int = 0
    reserved_bytes: int = 0

    def __post_init__(self) -> None:
        self.current = self.select(self.dialect.code_section, None, None, None)

    def select(
        self, name: str, flags: str | None, nobits: bool | None, span: Span | None
    ) -> SectionBuilder:
        """Make a section current, and create it if new. Raises Fault for contradictory flags."""
        found = self.by_name.get(name)
        if found is None:
            style = self.dialect.section_style(name)
            found = SectionBuilder(
                name,
                style.flags if flags is None else flags,
                style.nobits if nobits is None else nobits,
            )
            self.by_name[name] = found
        elif (flags is not None and set(flags) != set(found.flags)) or (
            nobits is not None and nobits != found.nobits
        ):
            kind = "nobits" if found.nobits else "progbits"
            raise Fault(
                SourceError.SECTION,
                f'section {name} was opened with flags "{found.flags}", @{kind}',
                span,
            )
        self.current = found
        return found

    def reserve(self, count: int, span: Span | None = None) -> int:
        """Append bytes to the current section; returns their offset. Raises FatalFault."""
        if self.current.nobits:
            self.reserved_bytes += count
            total, limit = self.reserved_bytes, self.limits.reserved_bytes
        else:
            self.total_bytes += count
            total, limit = self.total_bytes, self.limits.object_bytes
        if total > limit:
            raise FatalFault(
                SourceError.LIMIT,
                f"the object grows to {total} bytes, the limit is {limit}",
                span,
                fix="reserve less",
            )
        offset = self.current.size_bytes
        self.current.size_bytes += count
        return offset

    def align(self, alignment_bytes: int) -> int:
        """Pad the current section to an alignment; returns the number of bytes added."""
        section = self.current
        section.alignment_bytes = max(section.alignment_bytes, alignment_bytes)
        padding = -section.size_bytes % alignment_bytes
        self.reserve(padding)
        return padding
