"""Reading of instructions that are written as statements: `$v5 += $v1 * $vs1`.

In: a line. Out: the `ParsedLine` of the instruction whose template it fits, or None where it fits
none: such a line is a directive, a label, a mnemonic with operands, or wrong. The first template
that fits counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.asm.diagnostics import Fault, Span
from tilewright.asm.error_codes import SourceError
from tilewright.asm.text.grammar import Syntax
from tilewright.asm.text.parsed import ParsedLabel, ParsedLine, ParsedOperand, ParsedRegister
from tilewright.asm.text.templates import Template

ReadOperand = Callable[[str], ParsedLine | Fault]

_LABEL = r"[ \t]*(?:(?P<label>[A-Za-z_.][A-Za-z0-9_.]*)[ \t]*:)?[ \t]*"


def statement_reader(
    syntax: Syntax, read_operand: ReadOperand
) -> Callable[[str], ParsedLine | None]:
    """The reader of a syntax's statements; `read_operand` parses a line of one operand."""
    end = rf"[ \t\r]*(?:{syntax.comment_pattern})?\Z"
    statements = [
        (template, re.compile(rf"{_LABEL}(?P<body>{template.pattern}){end}"))
        for template in syntax.templates
    ]

    def read(text: str) -> ParsedLine | None:
        for template, pattern in statements:
            match = pattern.match(text)
            if match is not None:
                return _line(template, match, read_operand)
        return None

    return read


def _line(template: Template, match: re.Match[str], read_operand: ReadOperand) -> ParsedLine:
    label = match["label"]
    labels = (ParsedLabel(label, _span(match, "label")),) if label else ()
    operands = tuple(_operand(match, f"o{role}", read_operand) for role, _ in template.slots)
    return ParsedLine(labels, template.mnemonic, _span(match, "body"), operands)


def _operand(match: re.Match[str], group: str, read_operand: ReadOperand) -> ParsedOperand:
    """A register, or what the parser makes of an operand that stands at the same columns."""
    written = match[group]
    if written.startswith("$"):
        return ParsedRegister(written, _span(match, group))
    padding = " " * (match.start(group) - 1)
    found = read_operand(f"x{padding}{written}")
    if isinstance(found, Fault):
        raise found
    if len(found.operands) != 1:
        raise Fault(
            SourceError.SYNTAX, "an operand is missing", _span(match, group), fix="write a number"
        )
    return found.operands[0]


def _span(match: re.Match[str], group: str) -> Span:
    first, behind = match.span(group)
    return Span(first + 1, behind - first)
