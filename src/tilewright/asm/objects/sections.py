"""Sections while they are filled: sizes and what stands where.

The second pass turns the items into bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from tilewright.asm.diagnostics import FatalFault, Fault, SourceLine, Span
from tilewright.asm.error_codes import SourceError
from tilewright.asm.limits import Limits
from tilewright.asm.text.parsed import ParsedLine, ParsedOperand
from tilewright.isa import Dialect


class CodeItem(Struct, frozen=True, gc=False):
    """An instruction to be encoded at `offset`; `labels` mark its place."""

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
    """Bytes that are known already; zeros need no item."""

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
        """True if instructions may stand in it."""
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
        """Make a section current; it is made if it is new. Raises Fault if flags contradict."""
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
        """Append so many bytes to the current section; the answer is their offset.

        Raises FatalFault.
        """
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
        """Pad the current section to an alignment; the answer is the number of bytes added."""
        section = self.current
        section.alignment_bytes = max(section.alignment_bytes, alignment_bytes)
        padding = -section.size_bytes % alignment_bytes
        self.reserve(padding)
        return padding
