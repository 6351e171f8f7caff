"""Assembly text to an object: expansion, first pass, second pass.

`assemble` reads text, `assemble_file` a path; both raise `SourceErrors` with all errors.
"""

from __future__ import annotations

import gc
import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import assert_never

from tilewright.asm.diagnostics import Fault, Reporter, SourceError, SourceErrors, SourceLine, Span
from tilewright.asm.directives import Directive, directives
from tilewright.asm.encode import encode
from tilewright.asm.first_pass import FirstPass, expression_of
from tilewright.asm.front_end import FrontEnd, front_end_of
from tilewright.asm.limits import DEFAULT_LIMITS, Budget, Limits
from tilewright.asm.objects import link
from tilewright.asm.objects.sections import (
    ByteItem,
    CodeItem,
    Item,
    NumberItem,
    Object,
    ObjectSection,
    PlacedInstruction,
    Relocation,
    SectionBuilder,
    SectionSet,
    Symbol,
)
from tilewright.asm.objects.symbols import HIDDEN_PREFIX
from tilewright.asm.suggest import did_you_mean
from tilewright.asm.text.expand import EXPANSION_WORDS, Expander
from tilewright.asm.text.expression import (
    ExpressionValue,
    Name,
    ParsedLine,
    ParsedOperand,
    ParsedReal,
    UnaryOperation,
    expression_value,
    signed64,
    span_of,
)
from tilewright.asm.text.operands import bind_instruction, operand_span
from tilewright.asm.text.parse import line_parser
from tilewright.asm.text.source import IncludeFolder, SourceText, decode_source
from tilewright.common.errors import AssemblyError
from tilewright.common.expr import free_vars
from tilewright.common.expr_parser import parse_expr
from tilewright.common.files import read_file
from tilewright.isa import Instruction, InstructionTable, Register, SymbolReference
from tilewright.isa.dialect import GNU_SECTIONS

# A pause of the garbage collector while a source is assembled.
#
# A large source becomes millions of values that live until the object is made and never form
# cycles, so every collection would traverse all of them in vain.


@contextmanager
def collector_paused() -> Iterator[None]:
    """Context without garbage collection; a collector that was off before stays off."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# The second pass: items become bytes, relocations and `Instruction` values.

_WITHOUT_LABEL = frozenset((Register, int))


@cache
def _written_from(table: InstructionTable, mnemonic: str, role: str) -> frozenset[str]:
    """The memories that an instruction writes at an address that depends on an operand."""
    return frozenset(
        span.memory
        for span in table.by_mnemonic[mnemonic].spans
        if span.access == "write" and role in free_vars(parse_expr(span.address))
    )


@dataclass(slots=True)
class _Emitter:
    """The section being written, with its relocations for the linker."""

    layout: FirstPass
    section: SectionBuilder
    data: bytearray
    relocations: list[Relocation] = field(default_factory=list)
    instructions: list[PlacedInstruction] = field(default_factory=list)

    def emit(self, item: Item) -> None:
        """Write one item. Raises Fault."""
        match item:
            case ByteItem(offset, data):
                self.data[offset : offset + len(data)] = data
            case NumberItem():
                self._numbers(item)
            case CodeItem():
                self._instruction(item)
            case _:
                assert_never(item)

    # ---------------------------------------------------------------- numbers

    def _numbers(self, item: NumberItem) -> None:
        for index, operand in enumerate(item.operands):
            offset = item.offset + index * item.unit_bytes
            pack = self._real if item.real else self._integer
            self.data[offset : offset + item.unit_bytes] = pack(item, operand, offset)

    def _integer(self, item: NumberItem, operand: ParsedOperand, offset: int) -> bytes:
        scope = self.layout.symbols.scope(item.order, self.section.name, item.offset)
        value, span = expression_value(expression_of(operand), scope), span_of(operand)
        bits = 8 * item.unit_bytes
        if value.symbol:
            if value.part:
                raise Fault(
                    SourceError.ADDRESS,
                    f"{value.part}() of a symbol belongs into an instruction",
                    span,
                )
            self._relocate(
                Relocation(
                    self.section.name,
                    offset,
                    link.DATA_KINDS[item.unit_bytes],
                    value.symbol,
                    value.offset,
                )
            )
            return bytes(item.unit_bytes)
        low, high = -(1 << bits - 1), (1 << bits) - 1
        if not low <= value.offset <= high:
            raise Fault(
                SourceError.RANGE,
                f"{value.offset} does not fit {item.unit_bytes} bytes: {low} .. {high}",
                span,
            )
        return (value.offset & high).to_bytes(item.unit_bytes, self.layout.table.byte_order)

    def _real(self, item: NumberItem, operand: ParsedOperand, offset: int) -> bytes:
        mark = "<" if self.layout.table.byte_order == "little" else ">"
        scope = self.layout.symbols.scope(item.order, self.section.name, offset)
        try:
            value = _real_constant(operand)
            if value is None:
                value = float(
                    _absolute(expression_value(expression_of(operand), scope), span_of(operand))
                )
            if item.unit_bytes == 8 and math.isinf(value) and isinstance(operand, ParsedReal):
                raise OverflowError
            return struct.pack(mark + ("f" if item.unit_bytes == 4 else "d"), value)
        except OverflowError:
            kind = "float" if item.unit_bytes == 4 else "double"
            raise Fault(
                SourceError.RANGE, f"the number is too large for a {kind}", span_of(operand)
            ) from None

    # ---------------------------------------------------------------- instructions

    def _instruction(self, item: CodeItem) -> None:
        scope = self.layout.symbols.scope(item.order, self.section.name, item.offset)
        instruction = bind_instruction(
            item.parsed, self.layout.table, scope, labels=item.labels, line_number=item.line.number
        )
        self.instructions.append(PlacedInstruction(self.section.name, item.offset, instruction))
        coded = instruction
        if not _WITHOUT_LABEL.issuperset(map(type, instruction.operands)):
            for index, operand in enumerate(instruction.operands):
                label = link.label_of(operand)
                if label is not None:
                    coded = self._resolve(item, coded, index, label)
            coded = link.without_labels(coded)
        word = encode(coded)
        self.data[item.offset : item.offset + len(word)] = word

    def _resolve(
        self, item: CodeItem, instruction: Instruction, index: int, label: SymbolReference
    ) -> Instruction:
        """Resolve a branch inside the section to its distance; relocate all other symbols."""
        kind = link.relocation_kind(instruction, index, label)
        place = self.layout.symbols.place(label.name)
        if kind.name != "TARGET" or place is None or place[0] != self.section.name:
            section = self.section.name
            self._relocate(Relocation(section, item.offset, kind, label.name, label.addend, index))
            self._check_written(item, instruction, index, label)
            return instruction
        try:
            target = place[1] + label.addend
            distance = link.relocated_value(kind, target, item.offset, self.layout.table)
            return link.with_operand(instruction, index, distance)
        except AssemblyError as error:
            span = operand_span(item.parsed, self.layout.table, index)
            raise Fault(
                SourceError.RANGE, f"{label.name}: {error.message}", span, fix=error.fix
            ) from None

    def _check_written(
        self, item: CodeItem, instruction: Instruction, index: int, label: SymbolReference
    ) -> None:
        """Refuse a write to a read-only section of this source. Raises Fault."""
        if not instruction.spec.spans:
            return
        table, place = instruction.table, self.layout.symbols.place(label.name)
        role = table.operands_of(instruction.spec)[index].role
        memories = _written_from(table, instruction.mnemonic, role)
        if place is None or not memories:
            return
        section = self.layout.sections.by_name[place[0]]
        if table.dialect.section_style(section.name).memory not in memories:
            return
        if "w" not in section.flags:
            writable = (s.name for s in table.dialect.sections if "w" in s.flags)
            raise Fault(
                SourceError.READ_ONLY,
                f"{item.parsed.word} writes to {label.name}, which is in {section.name}",
                operand_span(item.parsed, table, index),
                fix=f"declare {label.name} in {' or '.join(writable)}",
            )

    def _relocate(self, relocation: Relocation) -> None:
        """Add a relocation; hidden labels, which the object omits, become relative to a section."""
        place = self.layout.symbols.place(relocation.symbol)
        if relocation.symbol.startswith(HIDDEN_PREFIX) and place is not None:
            relocation = Relocation(
                relocation.section,
                relocation.offset,
                relocation.kind,
                place[0],
                relocation.addend + place[1] // link.unit_bytes(relocation.kind, self.layout.table),
                relocation.operand,
            )
        self.relocations.append(relocation)


def _real_constant(operand: ParsedOperand) -> float | None:
    """A floating-point constant, also `inf`, `nan` and their negatives."""
    match operand:
        case ParsedReal(value, _):
            return value
        case Name("inf" | "nan" as name, _):
            return float(name)
        case UnaryOperation("-", Name("inf" | "nan" as name, _), _, _):
            return -float(name)
        case _:
            return None


def _absolute(value: ExpressionValue, span: Span) -> int:
    if value.symbol:
        raise Fault(
            SourceError.ADDRESS, f"a number is needed, but {value.symbol} is an address", span
        )
    return value.offset


def emit_object(layout: FirstPass) -> Object:
    """The object of a layout; faults are added to its reporter, which raises them."""
    layout.symbols.resolve_definitions(layout.reporter)
    sections: list[ObjectSection] = []
    relocations: list[Relocation] = []
    instructions: list[PlacedInstruction] = []
    for builder in layout.sections.by_name.values():
        emitter = _Emitter(layout, builder, bytearray(0 if builder.nobits else builder.size_bytes))
        for item in builder.items:
            try:
                emitter.emit(item)
            except Fault as fault:
                line, order = _place_of(item)
                layout.reporter.add(line, fault, order)
        sections.append(_finished(builder, bytes(emitter.data)))
        relocations += emitter.relocations
        instructions += emitter.instructions
    symbols = _symbols(layout, {relocation.symbol for relocation in relocations})
    layout.reporter.raise_if_any()
    kept = {place.section for place in layout.symbols.labels.values()}
    code = layout.table.dialect.code_section
    return Object(
        layout.table.instruction_set,
        layout.table.byte_order,
        layout.word_bytes,
        layout.file_name,
        tuple(s for s in sections if s.size_bytes or s.name in kept or s.name == code),
        symbols,
        tuple(relocations),
        tuple(layout.lines),
        tuple(instructions),
        elf_machine=layout.table.elf_machine,
    )


def _place_of(item: Item) -> tuple[SourceLine, int]:
    if isinstance(item, ByteItem):
        raise AssertionError("known bytes cannot be wrong")
    return item.line, item.order


def _finished(builder: SectionBuilder, data: bytes) -> ObjectSection:
    return ObjectSection(
        builder.name,
        builder.flags,
        data,
        builder.size_bytes,
        builder.alignment_bytes,
        builder.nobits,
    )


def _symbols(layout: FirstPass, used: set[str]) -> tuple[Symbol, ...]:
    """Labels, set values, and undefined names that are used; reports undefined `.globl` names."""
    table = layout.symbols
    found: list[Symbol] = []
    for name, label in table.labels.items():
        if not name.startswith(HIDDEN_PREFIX):
            found.append(_symbol(layout, name, label.section, label.offset))
    for name, history in table.definitions.items():
        value = history[-1].value
        place = table.place(value.symbol) if value and value.symbol else ("", 0)
        if value is not None and place is not None and not value.part:
            found.append(_symbol(layout, name, place[0], signed64(place[1] + value.offset)))
    for name, declaration in table.declarations.items():
        if table.is_defined(name):
            continue
        if declaration.is_external:
            if name in used:
                found.append(Symbol(name, None, 0, is_global=True))
        elif declaration.line is not None:
            fix = did_you_mean(name, (known for known in table.names() if table.is_defined(known)))
            fault = Fault(
                SourceError.UNDEFINED,
                f"'{name}' is global but not defined",
                declaration.span,
                fix=fix,
            )
            layout.reporter.add(declaration.line, fault, declaration.order)
    return tuple(found)


def _symbol(layout: FirstPass, name: str, section: str, value: int) -> Symbol:
    declaration = layout.symbols.declarations.get(name)
    if declaration is None:
        return Symbol(name, section, value)
    return Symbol(name, section, value, declaration.is_global, declaration.kind, declaration.size)


def assemble(
    source: str | bytes,
    table: InstructionTable,
    *,
    filename: str = "<source>",
    folder: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Object:
    """The object of an assembly text.

    `filename` names the source in messages and in the object; `.include` reads below `folder` only.
    Errors: SourceErrors, an AssemblyError with file, line, column, caret and fix of every error.
    """
    with collector_paused():
        return _assembled(decode_source(filename, source, limits), table, folder, limits)


def _assembled(
    text: SourceText, table: InstructionTable, folder: Path | None, limits: Limits
) -> Object:
    include = IncludeFolder(folder, limits)
    front_end = front_end_of(table, "\n".join(text.lines))
    if front_end is not None:
        _declare(text, table, include, limits, front_end)
    reporter = Reporter(limits.errors)
    layout = _placed(text, table, include, limits, reporter, front_end)
    if reporter.structure_broken:
        reporter.raise_if_any()
    return emit_object(layout)


def _declare(
    text: SourceText,
    table: InstructionTable,
    include: IncludeFolder,
    limits: Limits,
    front_end: FrontEnd,
) -> None:
    """Show the source's declarations to the front end; errors are left to the next pass."""
    front_end.begin(declaring=True)
    with suppress(SourceErrors):
        _placed(text, table, include, limits, Reporter(limits.expanded_lines), front_end)
    front_end.begin(declaring=False)


def _placed(
    text: SourceText,
    table: InstructionTable,
    include: IncludeFolder,
    limits: Limits,
    reporter: Reporter,
    front_end: FrontEnd | None,
) -> FirstPass:
    """The first pass over a source: sections, offsets and symbols."""
    layout = FirstPass(table, text.name, limits, reporter, SectionSet(table.dialect, limits))
    layout.symbols.sections.add(table.dialect.code_section)
    known = directives(table)
    budget = Budget(limits)
    expander = Expander(
        text,
        table,
        line_parser(table),
        include,
        budget,
        reporter,
        number=layout.operand_number,
        is_defined=layout.symbols.is_defined,
        reserved=lambda name: name in known or name in table.mnemonics,
        current_section=lambda: layout.sections.current.name,
        front_end=front_end,
    )
    for line, parsed in expander:
        layout.begin(line, budget.lines)
        _place(layout, line, parsed, known)
    return layout


def assemble_file(path: Path, table: InstructionTable) -> Object:
    """The object of an assembly file; it may include files of its folder. Errors: AssemblyError."""
    try:
        source = read_file(path)
    except OSError as error:
        raise AssemblyError(f"cannot read it: {error.strerror}", where=str(path)) from error
    return assemble(source, table, filename=path.name, folder=path.parent)


def _place(
    layout: FirstPass, line: SourceLine, parsed: ParsedLine, known: Mapping[str, Directive]
) -> None:
    """Place the labels of a line, then its statement."""
    section = layout.sections.current
    offset = section.size_bytes
    layout.place_labels(parsed.labels)
    try:
        if parsed.word.startswith((".", "=")):
            _directive(layout, parsed, known)
        elif parsed.word:
            layout.place_instruction(parsed)
    except Fault as fault:
        layout.reporter.add(line, fault, layout.order)
    layout.record_line(line, section.name, offset)


def _directive(layout: FirstPass, parsed: ParsedLine, known: Mapping[str, Directive]) -> None:
    directive = known.get(parsed.word)
    if directive is None:
        fix = did_you_mean(parsed.word, (*known, *EXPANSION_WORDS))
        if parsed.word in {section.name for section in GNU_SECTIONS}:
            names = [section.name for section in layout.table.dialect.sections]
            fix = f"sections are {', '.join(names)}"
        raise Fault(
            SourceError.DIRECTIVE, f"unknown directive '{parsed.word}'", parsed.span, fix=fix
        )
    directive(layout, parsed)
