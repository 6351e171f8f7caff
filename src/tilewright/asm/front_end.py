"""Front ends of families' own assembly languages: they replace lines before parsing.

A family whose language goes beyond instructions, directives and macros of `as` has a module
`language` with an object `LANGUAGE`. Its front end sees every active line and may replace it by
other lines. These go through the same expansion, so that messages show their origin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

from tilewright.asm.diagnostics import Fault, SourceLine
from tilewright.asm.objects.sections import Object
from tilewright.asm.suggest import did_you_mean
from tilewright.asm.text.expression import ParsedOperand
from tilewright.isa import InstructionTable
from tilewright.isa.load import table_files
from tilewright.machine.family import Capability, find_family


class Expansion(Protocol):
    """The assembler's services to a front end, at the current line."""

    def next_line(self) -> SourceLine | None:
        """Consume and return the next line of the same text; None at its end."""

    def number_of(self, text: str, column: int) -> int:
        """The value of an expression that starts at a column of the line. Raises Fault."""

    def operands_of(self, text: str) -> tuple[ParsedOperand, ...]:
        """The operands of a statement. Raises Fault."""

    def report(self, line: SourceLine, fault: Fault) -> None:
        """Report a fault of a consumed line."""

    @property
    def section(self) -> str:
        """The current section."""


class FrontEnd(Protocol):
    """The front end of one source, which it sees twice: first for its declarations."""

    def begin(self, *, declaring: bool) -> None:
        """Start over at the first line, to expand the source or only for its declarations."""

    def expand(self, line: SourceLine, context: Expansion) -> Iterable[SourceLine] | None:
        """The lines that replace a line; None to keep it. Raises Fault."""

    def closing(self) -> Iterable[str]:
        """Lines to add after the last one. Raises Fault for blocks that are still open."""


class Language(Protocol):
    """A family with a language of its own; `suffix` marks its files, and `machine` is their default
    machine.
    """

    suffix: str
    machine: str
    definition: re.Pattern[str]
    """Lines that define a name, its group `name`."""
    words: tuple[str, ...]
    """Words besides mnemonics and directives that may begin a line."""

    def front_end(self, table: InstructionTable) -> FrontEnd:
        """A front end for one source."""

    def is_needed(self, text: str) -> bool:
        """True if a source contains lines for the front end."""

    def describe(self, word: str) -> str:
        """The meaning of a word of the language, given without its mark; "" if unknown."""

    def maps(self, source: Object) -> Sequence[str]:
        """Rows that show the layout of an object's or image's data, beyond its symbols."""


LANGUAGES: Capability[Language] = Capability(
    "language",
    ("front_end", "is_needed", "definition", "describe", "maps", "suffix", "machine", "words"),
    "language of its own",
)


@cache
def language_of(instruction_set: str) -> Language | None:
    """The language of an instruction set's family; None if it has none of its own."""
    files = table_files()
    if instruction_set not in files:
        return None
    return LANGUAGES.of_family(find_family(files[instruction_set][0]))


def front_end_of(table: InstructionTable, text: str) -> FrontEnd | None:
    """The front end that a source for a table needs; None if it needs none."""
    language = language_of(table.instruction_set)
    if language is None or not language.is_needed(text):
        return None
    return language.front_end(table)


def nearest_word(table: InstructionTable, word: str) -> str:
    """The fix that suggests the closest mnemonic or word of the language; empty for none."""
    language = language_of(table.instruction_set)
    words = () if language is None else language.words
    return did_you_mean(word, (*table.mnemonics, *words))


def maps_of(source: Object) -> Sequence[str]:
    """The rows that the instruction set's language adds to an object's summary."""
    language = language_of(source.instruction_set)
    return () if language is None else language.maps(source)


def machine_of_file(path: Path) -> str | None:
    """The machine that a file's suffix implies; None if no language has that suffix."""
    for name in LANGUAGES.families():
        language = LANGUAGES.of_family(find_family(name))
        if language is not None and language.suffix == path.suffix:
            return language.machine
    return None
