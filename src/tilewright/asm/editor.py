"""Editor support for assembly: errors, meanings of words, definitions, completions.

In: the current text of a source, its table and its path. Out: plain values, which the language
server (`cli.lsp`) translates to its protocol. Lines and columns count from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tilewright.asm.assemble import assemble
from tilewright.asm.diagnostics import Diagnostic, Fault, SourceErrors, SourceLine, Span
from tilewright.asm.directives import directives
from tilewright.asm.front_end import language_of
from tilewright.asm.limits import DEFAULT_LIMITS
from tilewright.asm.text.source import IncludeFolder
from tilewright.common.errors import AssemblyError
from tilewright.isa import InstructionSpec, InstructionTable

_WORD = re.compile(r"(?P<mark>@\s*)?(?P<name>[A-Za-z_.][\w.]*)", re.ASCII)
"""A name; with the mark, a word of a family's language."""
_BEGUN = re.compile(r"[@$.]?[\w.]*$", re.ASCII)
_STATEMENT = re.compile(r"\s*(?:[A-Za-z_.][\w.]*\s*:\s*)*", re.ASCII)
"""Labels, which may precede a statement in its line."""
_INCLUDE = re.compile(r'\s*\.include\s+"([^"]+)"')
_DEFINITIONS = (
    re.compile(r"\s*(?:[A-Za-z_.][\w.]*\s*:\s*)*?(?P<name>[A-Za-z_.][\w.]*)\s*:", re.ASCII),
    re.compile(r"\s*\.(?:macro|set|equ|equiv)\s+(?P<name>[A-Za-z_.][\w.]*)", re.ASCII),
    re.compile(r"\s*(?P<name>[A-Za-z_][\w.]*)\s*=(?!=)", re.ASCII),
)


@dataclass(frozen=True, slots=True)
class Source:
    """A source in an editor."""

    text: str
    path: Path
    table: InstructionTable

    @property
    def lines(self) -> list[str]:
        """The source's lines."""
        return self.text.split("\n")


@dataclass(frozen=True, slots=True)
class _Place:
    """Definition of a name: its position, and the line that defines it."""

    path: Path
    line: int
    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, at the line of the source that caused it."""

    line: int
    span: Span
    code: str
    message: str


def problems_of(source: Source) -> tuple[Problem, ...]:
    """All errors of a source."""
    try:
        assemble(source.text, source.table, filename=source.path.name, folder=source.path.parent)
    except SourceErrors as errors:
        return tuple(_problem(source, diagnostic) for diagnostic in errors.diagnostics)
    except AssemblyError as error:
        return (Problem(1, Span(1), "", error.message),)
    return ()


def _problem(source: Source, diagnostic: Diagnostic) -> Problem:
    """The problem of a diagnostic; one inside a macro, block or file is shown where that begins."""
    line, span = diagnostic.line, diagnostic.span
    message = diagnostic.message + (f"\nfix: {diagnostic.fix}" if diagnostic.fix else "")
    if line.parent is not None:
        message += f"\nin {line.origin}: {line.text.strip()}"
        line = _outermost(line)
        span = _whole(line.text)
    if line.file != source.path.name:
        message, span, number = f"{diagnostic.where}: {message}", Span(1), 1
    else:
        number = line.number
    return Problem(number, span, diagnostic.error_code.number, message)


def _outermost(line: SourceLine) -> SourceLine:
    """The line of the source that a line was expanded from."""
    while True:
        above = line.parent
        if above is None:
            return line
        line = above


def _whole(text: str) -> Span:
    indent = len(text) - len(text.lstrip())
    return Span(indent + 1, max(len(text.strip()), 1))


def word_at(source: Source, line: int, column: int) -> str:
    """The name at a position; "" if there is none."""
    match = _match_at(source, line, column)
    return "" if match is None else match["name"]


def _match_at(source: Source, line: int, column: int) -> re.Match[str] | None:
    lines = source.lines
    matches = _WORD.finditer(lines[line - 1]) if 1 <= line <= len(lines) else ()
    return next((m for m in matches if m.start() < column <= m.end() + 1), None)


def definition_of(source: Source, line: int, column: int) -> _Place | None:
    """Definition of the name at a position: in the source, or in a file that it includes."""
    word = word_at(source, line, column)
    places = (place for place in _places(source) if place.text and word)
    return next((place for place in places if _names(source, place) == word), None)


def _names(source: Source, place: _Place) -> str:
    first = place.span.column - 1
    return place.text[first : first + place.span.length]


def _places(source: Source) -> Iterator[_Place]:
    """Every definition of the source and of the files that it includes."""
    language = language_of(source.table.instruction_set)
    patterns = (*_DEFINITIONS, *((language.definition,) if language else ()))
    waiting, seen = [(source.path, source.lines)], {source.path}
    while waiting:
        path, lines = waiting.pop(0)
        for number, text in enumerate(lines, 1):
            for pattern in patterns:
                match = pattern.match(text)
                if match:
                    span = Span(match.start("name") + 1, len(match["name"]))
                    yield _Place(path, number, span, text)
            included = _INCLUDE.match(text)
            if included and (found := source.path.parent / included[1]) not in seen:
                seen.add(found)
                waiting.append((found, _included(source, included[1])))


def _included(source: Source, name: str) -> list[str]:
    """The lines of an included file; empty if it cannot be read, which is reported elsewhere."""
    try:
        return list(IncludeFolder(source.path.parent, DEFAULT_LIMITS).read(name, Span(1)).lines)
    except (Fault, SourceErrors):
        return []


def meaning_of(source: Source, line: int, column: int) -> str:
    """The meaning of the word at a position, in a few lines; "" for an unknown word."""
    match = _match_at(source, line, column)
    if match is None:
        return ""
    word, table = match["name"], source.table
    mnemonic = word.lower() if table.dialect.ignores_case else word
    place = definition_of(source, line, column)
    if place is not None:
        return f"{place.text.strip()}\n{place.path.name}:{place.line}"
    language = language_of(table.instruction_set)
    described = language.describe(word) if language and match["mark"] else ""
    if described:
        return described
    spec = table.by_mnemonic.get(mnemonic)
    if spec is not None:
        return _described(table, spec)
    aliases = [alias for alias in table.aliases if alias.mnemonic == mnemonic]
    if aliases:
        return f"{mnemonic}: an alias of {aliases[0].instruction}"
    return ""


def _described(table: InstructionTable, spec: InstructionSpec) -> str:
    operands = ", ".join(operand.role for operand in table.operands_of(spec))
    meaning = spec.operation or spec.effect.value
    rows = [f"{spec.mnemonic} {operands}".rstrip(), f"effect: {meaning.replace('_', ' ')}"]
    cycles = spec.cycles or f"latency {spec.latency_cycles}"
    return "\n".join([*rows, f"units: {', '.join(spec.units)}; cycles: {cycles}"])


def completions_of(source: Source, line: int, column: int) -> tuple[str, ...]:
    """The words that complete the text before a position: mnemonics, directives, words of the
    language and macros at the start of a statement, registers and names after it.
    """
    before = source.lines[line - 1][: column - 1] if 1 <= line <= len(source.lines) else ""
    match = _BEGUN.search(before)
    begun, table = match[0] if match else "", source.table
    names = {_names(source, place) for place in _places(source)}
    known: Iterable[str] = (*table.register_names, *names)
    if _STATEMENT.fullmatch(before[: len(before) - len(begun)]):
        language = language_of(table.instruction_set)
        own = () if language is None else language.words
        known = (*table.mnemonics, *directives(table), *own, *names)
    return tuple(sorted({word for word in known if word.startswith(begun)}))
