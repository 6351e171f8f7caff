"""The first pass: it assigns a section and an offset to every line, and an address to every label.

In: a source and an instruction table. Out: a `FirstPass`: sections filled with items, symbols, and
the map from lines to bytes. All instructions have one size, so one pass suffices for offsets;
expressions in operands are evaluated in the second pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import structs

from tilewright.asm.diagnostics import Fault, Reporter, SourceError, SourceLine, Span
from tilewright.asm.limits import Limits
from tilewright.asm.objects.sections import CodeItem, LineEntry, SectionSet
from tilewright.asm.objects.symbols import (
    Label,
    NotYetKnown,
    SetDirective,
    SymbolScope,
    SymbolTable,
)
from tilewright.asm.text.expression import (
    Expression,
    ExpressionValue,
    ParsedLabel,
    ParsedLine,
    ParsedOperand,
    expression_value,
    span_of,
)
from tilewright.asm.text.operands import unknown_instruction
from tilewright.isa import InstructionTable

_NO_LINE = SourceLine("", 0, "")


@dataclass(slots=True)
class FirstPass:
    """State of the first pass; directives change it."""

    table: InstructionTable
    file_name: str
    limits: Limits
    reporter: Reporter
    sections: SectionSet
    symbols: SymbolTable = field(default_factory=SymbolTable)
    lines: list[LineEntry] = field(default_factory=list)
    debug_files: dict[int, str] = field(default_factory=dict)
    debug_place: tuple[str, int] | None = None
    order: int = 0
    line: SourceLine = _NO_LINE

    @property
    def word_bytes(self) -> int:
        """Size of an instruction."""
        return self.table.word_bits // 8

    def scope(self) -> SymbolScope:
        """The scope of an expression at this point."""
        section = self.sections.current
        return self.symbols.scope(self.order, section.name, section.size_bytes)

    def number(self, expression: Expression) -> int:
        """The value of an expression that must be known now. Raises Fault."""
        try:
            value = expression_value(expression, self.scope())
        except NotYetKnown as fault:
            fix = fault.fix if fault.fix.startswith("did you mean") else "define it above this line"
            raise fault.again(fix=fix) from None
        if value.symbol:
            raise Fault(
                SourceError.ADDRESS,
                f"a number is needed, but {value.symbol} is an address",
                span_of(expression),
            )
        return value.offset

    def operand_number(self, operand: ParsedOperand) -> int:
        """The value of an operand that must be known now. Raises Fault."""
        return self.number(expression_of(operand))

    def define_value(self, name: str, expression: Expression, span: Span, *, once: bool) -> None:
        """Define a name by `.set` or `.equiv`, now if its value is known, else after all lines."""
        self._refuse_register(name, span)
        section = self.sections.current
        definition = SetDirective(
            name, self.order, self.line, span, expression, section.name, section.size_bytes
        )
        try:
            # a missing name may well come later, so that looking for similar ones would be in vain
            value: ExpressionValue | None = expression_value(
                expression, structs.replace(self.scope(), suggests=False)
            )
        except NotYetKnown:
            value = None
        except Fault:
            definition.failed = True
            self.symbols.define(definition, once=once)
            raise
        definition.value = value
        self.symbols.define(definition, once=once)

    def _refuse_register(self, name: str, span: Span) -> None:
        if name in self.table.register_numbers:
            raise Fault(
                SourceError.RESERVED, f"'{name}' is a register and cannot be a symbol", span
            )

    def begin(self, line: SourceLine, order: int) -> None:
        """Start a line; `order` counts the lines of the expanded source."""
        self.line, self.order = line, order

    def place_labels(self, labels: tuple[ParsedLabel, ...]) -> None:
        """Place the labels of a line at the current address."""
        section = self.sections.current
        for label in labels:
            place = Label(section.name, section.size_bytes, self.line)
            try:
                if label.name.isdecimal():
                    name = self.symbols.define_numeric(int(label.name), self.order, place)
                else:
                    name = label.name
                    self._refuse_register(name, label.span)
                    self.symbols.define_label(name, place, label.span)
            except Fault as fault:
                self.reporter.add(self.line, fault, self.order)
            else:
                section.pending_labels.append(name)

    def place_instruction(self, parsed: ParsedLine) -> None:
        """Reserve a word. Raises Fault in a data section or at an unaligned address."""
        section = self.sections.current
        if not section.is_code and parsed.word not in self.table.known_mnemonics:
            raise unknown_instruction(parsed, self.table)
        if not section.is_code:
            raise Fault(
                SourceError.SECTION,
                f"instruction '{parsed.word}' in data section {section.name}",
                parsed.span,
                fix=f"write {self.table.dialect.code_section} before it",
            )
        if section.size_bytes % self.word_bytes:
            offset = section.size_bytes
            self.sections.align(self.word_bytes)
            raise Fault(
                SourceError.SECTION,
                f"instruction at offset {offset:#x}, which is no multiple of {self.word_bytes}",
                parsed.span,
                fix=f"write .balign {self.word_bytes} before it",
            )
        section.alignment_bytes = max(section.alignment_bytes, self.word_bytes)
        labels = tuple(section.pending_labels)
        section.pending_labels.clear()
        offset = self.sections.reserve(self.word_bytes, parsed.span)
        section.items.append(CodeItem(offset, self.order, self.line, parsed, labels))

    def record_line(self, line: SourceLine, section: str, offset: int) -> None:
        """Record the bytes of a line; a line that changes the section has none."""
        current = self.sections.current
        size = current.size_bytes - offset if current.name == section else 0
        start = offset if current.name == section else current.size_bytes
        self.lines.append(
            LineEntry(
                current.name,
                start,
                size,
                line.file,
                line.number,
                line.text,
                line.depth,
                self.debug_place if size else None,
                line.origin,
            )
        )


def expression_of(operand: ParsedOperand) -> Expression:
    """The operand as an expression. Raises Fault for any other kind, such as a register."""
    if isinstance(operand, Expression):
        return operand
    raise Fault(SourceError.KIND, "a number or symbol is expected here", span_of(operand))
