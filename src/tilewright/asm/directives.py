"""The directives and their effects on the layout: one function each, found by name.

The dialect adds directives for its sections. Directives that control the expansion (`.macro`,
`.rept`, `.if`, `.include`) are in `expand`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from tilewright.asm.diagnostics import Fault, SourceError, Span
from tilewright.asm.encode import no_operation_word
from tilewright.asm.first_pass import FirstPass, expression_of
from tilewright.asm.objects.sections import ByteItem, NumberItem
from tilewright.asm.text.expression import (
    Integer,
    Name,
    ParsedLine,
    ParsedOperand,
    ParsedString,
    ParsedType,
    span_of,
)
from tilewright.common.errors import MachineError
from tilewright.isa import InstructionTable

Directive = Callable[[FirstPass, ParsedLine], None]


def _numbers(layout: FirstPass, parsed: ParsedLine, *, unit_bytes: int, real: bool = False) -> None:
    _needs_bits(layout, parsed)
    if not parsed.operands:
        raise Fault(SourceError.ARGUMENTS, f"{parsed.word} needs at least one number", parsed.span)
    section = layout.sections.current
    offset = layout.sections.reserve(unit_bytes * len(parsed.operands), parsed.span)
    section.items.append(
        NumberItem(offset, layout.order, layout.line, parsed.operands, unit_bytes, real)
    )


def _strings(layout: FirstPass, parsed: ParsedLine, *, end: bytes) -> None:
    _needs_bits(layout, parsed)
    if not parsed.operands:
        raise Fault(SourceError.ARGUMENTS, f"{parsed.word} needs at least one string", parsed.span)
    for operand in parsed.operands:
        if not isinstance(operand, ParsedString):
            raise Fault(
                SourceError.ARGUMENTS, f'{parsed.word} takes strings in "..."', span_of(operand)
            )
        _bytes(layout, operand.value + end, operand.span)


def _space(layout: FirstPass, parsed: ParsedLine) -> None:
    _count(parsed, 1, 2, "a size and a fill byte")
    size = layout.operand_number(parsed.operands[0])
    fill = layout.operand_number(parsed.operands[1]) if len(parsed.operands) > 1 else 0
    span = span_of(parsed.operands[0])
    if size < 0:
        raise Fault(SourceError.ARGUMENTS, f"{parsed.word} {size}: a size cannot be negative", span)
    _in_byte(fill, parsed)
    if fill:
        _needs_bits(layout, parsed)
    offset = layout.sections.reserve(size, span)
    if fill:
        layout.sections.current.items.append(ByteItem(offset, bytes([fill & 255]) * size))


def _align(layout: FirstPass, parsed: ParsedLine, *, power: bool) -> None:
    _count(parsed, 1, 2, "an alignment and a fill byte")
    given, span = layout.operand_number(parsed.operands[0]), span_of(parsed.operands[0])
    largest = layout.limits.alignment_bytes
    limit = largest.bit_length() - 1 if power else largest
    if not 0 <= given <= limit:
        raise Fault(SourceError.RANGE, f"{parsed.word} {given} is outside 0 .. {limit}", span)
    alignment = 1 << given if power else max(given, 1)
    if alignment & (alignment - 1):
        raise Fault(
            SourceError.ARGUMENTS,
            f"{parsed.word} {given}: an alignment must be a power of two",
            span,
        )
    fill = layout.operand_number(parsed.operands[1]) if len(parsed.operands) > 1 else None
    _in_byte(fill or 0, parsed)
    section = layout.sections.current
    offset = section.size_bytes
    padding = layout.sections.align(alignment)
    if fill is not None:
        section.items.append(ByteItem(offset, bytes([fill & 255]) * padding))
    elif section.is_code and padding:
        section.items.append(ByteItem(offset, _code_padding(layout, padding)))


def _code_padding(layout: FirstPass, count: int) -> bytes:
    """Zeros up to the next instruction boundary, then instructions that do nothing."""
    words, odd = divmod(count, layout.word_bytes)
    return bytes(odd) + no_operation_word(layout.table) * words


def _section(layout: FirstPass, parsed: ParsedLine) -> None:
    _count(parsed, 1, 3, "a name, flags and @progbits or @nobits")
    name, flags, nobits = _name(parsed.operands[0]), None, None
    for operand in parsed.operands[1:]:
        match operand:
            case ParsedString(value, span) if flags is None:
                flags = value.decode("latin-1")
                if set(flags) - set("awx"):
                    raise Fault(
                        SourceError.ARGUMENTS,
                        f'section flags "{flags}" are not made of a, w, x',
                        span,
                    )
            case ParsedType("nobits" | "progbits" as kind, _):
                nobits = kind == "nobits"
            case _:
                raise Fault(
                    SourceError.ARGUMENTS,
                    "expected flags in quotes, @progbits or @nobits",
                    span_of(operand),
                )
    if name in layout.symbols.labels or name in layout.symbols.definitions:
        raise Fault(
            SourceError.RESERVED, f"'{name}' is the name of a symbol", span_of(parsed.operands[0])
        )
    layout.sections.select(name, flags, nobits, parsed.span)
    layout.symbols.sections.add(name)


def _known_section(layout: FirstPass, parsed: ParsedLine) -> None:
    _count(parsed, 0, 0, "nothing")
    layout.sections.select(parsed.word, None, None, parsed.span)
    layout.symbols.sections.add(parsed.word)


def _declare(layout: FirstPass, parsed: ParsedLine, *, external: bool) -> None:
    if not parsed.operands:
        raise Fault(SourceError.ARGUMENTS, f"{parsed.word} needs at least one name", parsed.span)
    for operand in parsed.operands:
        declaration = layout.symbols.declare(_name(operand))
        declaration.is_external = declaration.is_external or external
        if not external:
            declaration.is_global = True
            declaration.line, declaration.order = layout.line, layout.order
            declaration.span = span_of(operand)


def _local(layout: FirstPass, parsed: ParsedLine) -> None:
    for operand in parsed.operands:
        layout.symbols.declare(_name(operand)).is_global = False


def _set_symbol(layout: FirstPass, parsed: ParsedLine, *, once: bool = False) -> None:
    _count(parsed, 2, 2, "a name and a value")
    name, value = _name(parsed.operands[0]), expression_of(parsed.operands[1])
    if name == ".":
        raise Fault(
            SourceError.RESERVED,
            "the address cannot be set",
            parsed.span,
            fix="use .space or .balign",
        )
    layout.define_value(name, value, span_of(parsed.operands[0]), once=once)


def _type(layout: FirstPass, parsed: ParsedLine) -> None:
    _count(parsed, 2, 2, "a name and @function or @object")
    match parsed.operands[1]:
        case ParsedType("function" | "object" as kind, _):
            layout.symbols.declare(_name(parsed.operands[0])).kind = kind
        case operand:
            raise Fault(SourceError.ARGUMENTS, "expected @function or @object", span_of(operand))


def _size(layout: FirstPass, parsed: ParsedLine) -> None:
    _count(parsed, 2, 2, "a name and a size")
    size = layout.operand_number(parsed.operands[1])
    if size < 0:
        raise Fault(
            SourceError.ARGUMENTS,
            f".size {size}: a size cannot be negative",
            span_of(parsed.operands[1]),
        )
    layout.symbols.declare(_name(parsed.operands[0])).size = size


def _file(layout: FirstPass, parsed: ParsedLine) -> None:
    match parsed.operands:
        case (ParsedString(value, _),):
            layout.file_name = value.decode("utf-8", "replace")
        case (Integer(number, _), ParsedString(value, _)):
            layout.debug_files[number] = value.decode("utf-8", "replace")
        case _:
            raise Fault(
                SourceError.ARGUMENTS, '.file needs "name", or a number and "name"', parsed.span
            )


def _loc(layout: FirstPass, parsed: ParsedLine) -> None:
    _count(parsed, 2, 3, "a file number, a line and a column")
    file, line = (layout.operand_number(operand) for operand in parsed.operands[:2])
    if file not in layout.debug_files:
        fix = f'write .file {file} "name" before'
        raise Fault(SourceError.ARGUMENTS, f"no .file {file}", span_of(parsed.operands[0]), fix=fix)
    if not 0 < line < 1 << 31:
        raise Fault(
            SourceError.RANGE,
            f".loc line {line} is outside 1 .. {(1 << 31) - 1}",
            span_of(parsed.operands[1]),
        )
    layout.debug_place = (layout.debug_files[file], line)


def _error(layout: FirstPass, parsed: ParsedLine) -> None:
    match parsed.operands:
        case (ParsedString(value, _),):
            raise Fault(SourceError.REFUSED, value.decode("utf-8", "replace"), parsed.span)
        case _:
            raise Fault(SourceError.ARGUMENTS, '.error needs "message"', parsed.span)


def _needs_bits(layout: FirstPass, parsed: ParsedLine) -> None:
    section = layout.sections.current
    if section.nobits:
        fix = f"reserve with .space, or write {layout.table.dialect.data_section} before it"
        raise Fault(
            SourceError.SECTION,
            f"{parsed.word} in section {section.name}, which holds no bytes",
            parsed.span,
            fix=fix,
        )


def _bytes(layout: FirstPass, data: bytes, span: Span) -> None:
    section = layout.sections.current
    section.items.append(ByteItem(layout.sections.reserve(len(data), span), data))


def _count(parsed: ParsedLine, least: int, most: int, what: str) -> None:
    if not least <= len(parsed.operands) <= most:
        raise Fault(
            SourceError.ARGUMENTS,
            f"{parsed.word} takes {what}, {len(parsed.operands)} given",
            parsed.span,
        )


def _in_byte(fill: int, parsed: ParsedLine) -> None:
    if not -128 <= fill <= 255:
        raise Fault(
            SourceError.RANGE,
            f"fill byte {fill} is outside -128 .. 255",
            span_of(parsed.operands[1]),
        )


def _name(operand: ParsedOperand) -> str:
    if isinstance(operand, Name):
        return operand.name
    raise Fault(SourceError.ARGUMENTS, "a name is expected here", span_of(operand))


_UNIT_BYTES = {".byte": 1, ".half": 2, ".short": 2, ".word": 4, ".long": 4, ".int": 4, ".quad": 8}

_COMMON: dict[str, Directive] = {
    **{name: partial(_numbers, unit_bytes=size) for name, size in _UNIT_BYTES.items()},
    ".float": partial(_numbers, unit_bytes=4, real=True),
    ".single": partial(_numbers, unit_bytes=4, real=True),
    ".double": partial(_numbers, unit_bytes=8, real=True),
    ".ascii": partial(_strings, end=b""),
    ".asciiz": partial(_strings, end=b"\0"),
    ".asciz": partial(_strings, end=b"\0"),
    ".string": partial(_strings, end=b"\0"),
    ".space": _space,
    ".skip": _space,
    ".zero": _space,
    ".align": partial(_align, power=True),
    ".p2align": partial(_align, power=True),
    ".balign": partial(_align, power=False),
    ".section": _section,
    ".globl": partial(_declare, external=False),
    ".global": partial(_declare, external=False),
    ".extern": partial(_declare, external=True),
    ".local": _local,
    ".set": _set_symbol,
    ".equ": _set_symbol,
    "=": _set_symbol,
    ".equiv": partial(_set_symbol, once=True),
    ".type": _type,
    ".size": _size,
    ".file": _file,
    ".loc": _loc,
    ".error": _error,
}


@lru_cache(maxsize=16)
def directives(table: InstructionTable) -> dict[str, Directive]:
    """The directives by name, with those of the table's sections.

    Errors: MachineError for a section with the name of another directive.
    """
    sections = table.dialect.section_styles
    for name in sections:
        if name in _COMMON:
            raise MachineError(
                f"dialect of {table.name}: section {name} is called like a directive",
                fix="give it another name",
            )
    return {**_COMMON, **dict.fromkeys(sections, _known_section)}
