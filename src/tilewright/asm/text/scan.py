"""Reading plain lines without the grammar: a label, an instruction, operands of the common kinds.

In: a line. Out: what the grammar would make of it, or None for every line that is not plain: such
a line may be anything, also wrong. Plain operands are registers, decimal and hexadecimal numbers,
names, and memory operands with a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tilewright.asm.diagnostics import Span
from tilewright.asm.text.expression import Expression, Integer, Name, Unary
from tilewright.asm.text.grammar import Syntax
from tilewright.asm.text.parsed import (
    ParsedImmediate,
    ParsedLabel,
    ParsedLine,
    ParsedMemory,
    ParsedOperand,
    ParsedRegister,
)

Match = re.Match[str]

_BLANK = r"[ \t\r]*+"
_NAME = r"\.?[A-Za-z_][A-Za-z0-9_.]*+"
_WORD = r"[A-Za-z_][A-Za-z0-9_.]*+"
_LABEL = rf"(?!\.(?:loc|file)(?![A-Za-z0-9_.])){_NAME}"
_NUMBER = r"(?:0[xX][0-9A-Fa-f]{1,16}|[1-9][0-9]{0,17}|0)(?![A-Za-z0-9_.])"
_MOST_OPERANDS = 6


class _Groups(NamedTuple):
    """The groups of one operand in the pattern of a line."""

    register: int
    base: int
    offset_sign: int
    offset: int
    mark: int
    sign: int
    number: int
    name: int


def line_scanner(syntax: Syntax) -> Callable[[str], ParsedLine | None]:
    """The scanner of a syntax. It matches a line once, without ever going back in it."""
    pattern = re.compile(_line_pattern(syntax))
    index = pattern.groupindex
    groups = [
        _Groups(*(index[f"{kind}{place}"] for kind in _Groups._fields))
        for place in range(_MOST_OPERANDS)
    ]

    def scan(text: str) -> ParsedLine | None:
        found = pattern.match(text)
        if found is None:
            return None
        label, word = found["label"], found["word"]
        labels = (ParsedLabel(label, _span(found, "label")),) if label else ()
        if not word:
            return ParsedLine(labels)
        operands: list[ParsedOperand] = []
        last = found.lastindex or 0
        for group in groups:
            if group.register > last:
                break
            first, behind = found.span(group.register)
            if first < 0:
                operands.append(_operand(found, group))
            else:
                operands.append(ParsedRegister(text[first:behind], Span(first + 1, behind - first)))
        return ParsedLine(labels, word, _span(found, "word"), tuple(operands))

    return scan


def _line_pattern(syntax: Syntax) -> str:
    """A label, a word and operands, all optional; the operands' groups are numbered by place."""
    operands = ""
    for place in reversed(range(_MOST_OPERANDS)):
        comma = "," if place else ""
        operands = rf"(?:{comma}{_BLANK}(?:{_operand_pattern(syntax, place)}){_BLANK}{operands})?"
    return (
        rf"{_BLANK}(?:(?P<label>{_LABEL}){_BLANK}:{_BLANK})?(?:(?P<word>{_WORD}){_BLANK}{operands})?"
        rf"(?:{syntax.comment_pattern})?\Z"
    )


def _operand_pattern(syntax: Syntax, place: int) -> str:
    immediate = rf"(?P<mark{place}>{re.escape(syntax.dialect.immediate)}){_BLANK}"
    number = (
        rf"{f'(?:{immediate})?' if syntax.dialect.immediate else f'(?P<mark{place}>(?!))?'}"
        rf"(?P<sign{place}>-)?{_BLANK}(?P<number{place}>{_NUMBER})"
    )
    memory = _memory_pattern(syntax, place)
    register = rf"(?P<register{place}>{syntax.register_pattern})"
    return rf"{register}|{memory}|{number}|(?P<name{place}>{_NAME})"


def _memory_pattern(syntax: Syntax, place: int) -> str:
    style = syntax.dialect.memory_style
    opening, closing = re.escape(style.opening), re.escape(style.closing)
    base = rf"{opening}{_BLANK}(?P<base{place}>{syntax.register_pattern}){_BLANK}"
    sign = rf"(?P<offset_sign{place}>{{}}){_BLANK}"
    offset = rf"(?P<offset{place}>{_NUMBER}){_BLANK}"
    minus = f"(?:{sign.format('-')})?"
    match style.separator:
        case "":
            return rf"(?:{minus}{offset})?{base}{closing}"
        case "+":
            return rf"{base}(?:{sign.format('[+-]')}{offset})?{closing}"
        case separator:
            mark = re.escape(style.mark)
            return rf"{base}(?:{separator}{_BLANK}{mark}{_BLANK}{minus}{offset})?{closing}"


def _operand(found: Match, group: _Groups) -> ParsedOperand:
    """An operand that is no register, the most frequent one."""
    if found[group.number]:
        value = _number(found, group.sign, group.number)
        mark = found[group.mark]
        return ParsedImmediate(value, _span(found, group.mark)) if mark else value
    if found[group.name]:
        return Name(found[group.name], _span(found, group.name))
    offset = _number(found, group.offset_sign, group.offset) if found[group.offset] else None
    return ParsedMemory(offset, ParsedRegister(found[group.base], _span(found, group.base)))


def _number(found: Match, sign: int, number: int) -> Expression:
    value = Integer(int(found[number], 0), _span(found, number))
    return Unary("-", value, _span(found, sign), 2) if found[sign] == "-" else value


def _span(found: Match, group: str | int) -> Span:
    first, behind = found.span(group)
    return Span(first + 1, behind - first)
