"""Macros: their definition line, their arguments, and the substitution of text in their bodies.

`.macro name first, second=default, third:req, rest:vararg`; in the body `\\first` is replaced by
the argument, `\\@` by the number of the expansion and `\\()` by nothing (it ends a name).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.asm.diagnostics import Fault, SourceError, SourceLine, Span
from tilewright.asm.suggest import did_you_mean

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PARAMETER = re.compile(rf"({_NAME})(?::(req|vararg))?(?:\s*=\s*(.*))?$")
_REFERENCE = re.compile(rf"\\(?:(\(\))|(@)|({_NAME}))")
_KEYWORD = re.compile(rf"({_NAME})\s*=(?!=)\s*(.*)$")
_DEFINITION = re.compile(r"\s*([A-Za-z_.][A-Za-z0-9_.]*)[\s,]*(.*)$")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; a default of None means that it is required."""

    name: str
    default: str | None = ""
    takes_rest: bool = False


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro; `line` is where it is defined."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[SourceLine, ...]
    line: SourceLine


def split_arguments(text: str, brackets: str) -> list[str]:
    """The pieces between commas outside brackets and quotes; none for an empty text.

    `brackets` are the opening ones, then the closing ones.
    """
    pieces, start, depth = [], 0, 0
    opening = brackets[: len(brackets) // 2]
    for i in _outside_quotes(text):
        if text[i] in brackets:
            depth += 1 if text[i] in opening else -1
        elif text[i] == "," and depth <= 0:
            pieces.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*pieces, last] if pieces or last else []


def without_comment(text: str, marks: tuple[str, ...]) -> str:
    """The text up to the first of the comment marks that is not inside quotes."""
    ends = (i for i in _outside_quotes(text) if text.startswith(marks, i))
    return text[: next(ends, len(text))]


def _outside_quotes(text: str) -> Iterator[int]:
    """The indices of unquoted characters."""
    quote, i = "", 0
    while i < len(text):
        char = text[i]
        if quote:
            i += char == "\\"
            quote = "" if char == quote else quote
        elif char == '"' or (char == "'" and "'" in text[i + 1 : i + 4]):
            quote = char
        else:
            yield i
        i += 1


def parse_definition(text: str, span: Span, brackets: str) -> tuple[str, tuple[Parameter, ...]]:
    """Name and parameters from the text after `.macro`, without comment. Raises Fault."""
    match = _DEFINITION.match(text)
    if match is None:
        raise Fault(
            SourceError.MACRO,
            "a macro needs a name",
            span,
            fix="write .macro name first, second=default",
        )
    parameters = tuple(_parameter(piece, span) for piece in split_arguments(match[2], brackets))
    names = [parameter.name for parameter in parameters]
    for name in names:
        if names.count(name) > 1:
            raise Fault(SourceError.MACRO, f"macro {match[1]} has two parameters '{name}'", span)
    if any(parameter.takes_rest for parameter in parameters[:-1]):
        raise Fault(SourceError.MACRO, "only the last parameter of a macro may be vararg", span)
    return match[1], parameters


def _parameter(text: str, span: Span) -> Parameter:
    match = _PARAMETER.match(text)
    if match is None:
        raise Fault(
            SourceError.MACRO,
            f"'{text}' is no macro parameter",
            span,
            fix="write name, name=default or name:req",
        )
    default = None if match[2] == "req" else _unquoted(match[3] or "")
    return Parameter(match[1], default, match[2] == "vararg")


def _unquoted(text: str) -> str:
    quoted = len(text) >= 2 and text[0] == text[-1] == '"' and '"' not in text[1:-1]
    return text[1:-1] if quoted else text


def bind_arguments(macro: Macro, text: str, span: Span, brackets: str) -> dict[str, str]:
    """The text of each parameter for a call, its arguments without comment. Raises Fault."""
    names = [parameter.name for parameter in macro.parameters]
    bound: dict[str, str] = {}
    position = 0
    pieces = split_arguments(text, brackets)
    for index, piece in enumerate(pieces):
        keyword = _KEYWORD.match(piece)
        if keyword and keyword[1] in names:
            bound[keyword[1]] = _unquoted(keyword[2])
            continue
        if keyword:
            fix = did_you_mean(keyword[1], names)
            raise Fault(
                SourceError.CALL,
                f"macro {macro.name} has no parameter '{keyword[1]}'",
                span,
                fix=fix,
            )
        if position == len(names):
            count = len(pieces)
            raise Fault(
                SourceError.CALL,
                f"macro {macro.name} takes {len(names)} arguments, {count} given",
                span,
            )
        if macro.parameters[position].takes_rest:
            bound[names[position]] = ", ".join(pieces[index:])
            break
        bound[names[position]] = _unquoted(piece)
        position += 1
    return {parameter.name: _value(macro, parameter, bound, span) for parameter in macro.parameters}


def _value(macro: Macro, parameter: Parameter, bound: Mapping[str, str], span: Span) -> str:
    given = bound.get(parameter.name, "")
    if given == "" and parameter.default is None:
        raise Fault(
            SourceError.CALL, f"macro {macro.name} needs its argument '{parameter.name}'", span
        )
    return given if given != "" else parameter.default or ""


def with_references(arguments: Mapping[str, str], serial: int, text: str) -> str:
    """The text with references to parameters replaced; other names are kept."""
    if "\\" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return ""
        return str(serial) if match[2] else arguments.get(match[3], match[0])

    return _REFERENCE.sub(replace, text)
