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
from tilewright.asm.expression import Expression, Integer, Name, Unary
from tilewright.asm.grammar import Syntax
from tilewright.asm.parsed import (
    ParsedImmediate,
    ParsedLabel,
    ParsedLine,
    ParsedMemory,
    ParsedOperand,
    ParsedRegister,
)

Match = re.Match[str]

_BLANK = r"[ \t\r]*"
_NAME = r"\.?[A-Za-z_][A-Za-z0-9_.]*"
_LABEL = rf"(?!\.(?:loc|file)(?![A-Za-z0-9_.])){_NAME}"
_NUMBER = r"(?:0[xX][0-9A-Fa-f]{1,16}|[1-9][0-9]{0,17}|0)(?![A-Za-z0-9_.])"


class _Patterns(NamedTuple):
    """Head of a line up to its first operand, one operand up to the next, the end."""

    head: re.Pattern[str]
    operand: re.Pattern[str]
    end: re.Pattern[str]


def line_scanner(syntax: Syntax) -> Callable[[str], ParsedLine | None]:
    """The scanner of a syntax."""
    patterns = _patterns(syntax)

    def scan(text: str) -> ParsedLine | None:
        head = patterns.head.match(text)
        if head is None:
            return None
        labels, word, span = _head(head)
        place = head.end()
        if patterns.end.match(text, place):
            return ParsedLine(labels, word, span) if word else ParsedLine(labels)
        operands: list[ParsedOperand] = []
        while word:
            found = patterns.operand.match(text, place)
            if found is None:
                return None
            register = found["register"]
            if register:
                first, behind = found.span("register")
                operands.append(ParsedRegister(register, Span(first + 1, behind - first)))
            else:
                operands.append(_operand(found))
            place = found.end()
            if found["comma"] is None:
                return ParsedLine(labels, word, span, tuple(operands))
        return None

    return scan


def _patterns(syntax: Syntax) -> _Patterns:
    end = rf"{_BLANK}(?:{syntax.comment_pattern})?\Z"
    register, memory = syntax.register_pattern, _memory_pattern(syntax)
    immediate = rf"(?P<mark>{re.escape(syntax.dialect.immediate)}){_BLANK}"
    number = (
        rf"{f'(?:{immediate})?' if syntax.dialect.immediate else '(?P<mark>(?!))?'}"
        rf"(?P<sign>-)?{_BLANK}(?P<number>{_NUMBER})"
    )
    kinds = rf"(?P<register>{register})|{memory}|{number}|(?P<name>{_NAME})"
    return _Patterns(
        head=re.compile(
            rf"{_BLANK}(?:(?P<label>{_LABEL}){_BLANK}:{_BLANK})?"
            rf"(?:(?P<word>[A-Za-z_][A-Za-z0-9_.]*){_BLANK})?"
        ),
        operand=re.compile(rf"{_BLANK}(?:{kinds}){_BLANK}(?:(?P<comma>,)|(?={end}))"),
        end=re.compile(end),
    )


def _memory_pattern(syntax: Syntax) -> str:
    style = syntax.dialect.memory_style
    opening, closing = re.escape(style.opening), re.escape(style.closing)
    base = rf"{opening}{_BLANK}(?P<base>{syntax.register_pattern}){_BLANK}"
    offset = rf"(?P<offset_sign>-)?{_BLANK}(?P<offset>{_NUMBER}){_BLANK}"
    match style.separator:
        case "":
            return rf"(?:{offset})?{base}{closing}"
        case "+":
            signed = offset.replace("-)?", r"[+-])", 1)
            return rf"{base}(?:{signed})?{closing}"
        case separator:
            mark = re.escape(style.mark)
            return rf"{base}(?:{separator}{_BLANK}{mark}{_BLANK}{offset})?{closing}"


def _head(head: Match) -> tuple[tuple[ParsedLabel, ...], str, Span]:
    label, word = head["label"], head["word"]
    labels = (ParsedLabel(label, _span(head, "label")),) if label else ()
    return labels, word or "", _span(head, "word") if word else Span(1)


def _operand(found: Match) -> ParsedOperand:
    """An operand that is no register, the most frequent one."""
    if found["base"]:
        offset = _number(found, "offset_sign", "offset") if found["offset"] else None
        return ParsedMemory(offset, ParsedRegister(found["base"], _span(found, "base")))
    if found["name"]:
        return Name(found["name"], _span(found, "name"))
    value = _number(found, "sign", "number")
    return ParsedImmediate(value, _span(found, "mark")) if found["mark"] else value


def _number(found: Match, sign: str, number: str) -> Expression:
    value = Integer(int(found[number], 0), _span(found, number))
    return Unary("-", value, _span(found, sign), 2) if found[sign] == "-" else value


def _span(found: Match, group: str) -> Span:
    first, behind = found.span(group)
    return Span(first + 1, behind - first)
