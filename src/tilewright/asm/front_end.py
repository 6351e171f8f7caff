"""Front ends of families' own assembly languages: they replace lines before these are parsed.

A family whose language is more than instructions, directives and macros of `as` has a module
`language` with an object `LANGUAGE`. Its front end sees every line that counts and may replace it
by lines; those go through the same expansion, so that a message shows where they came from.
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
    """The assembler's services to a front end at a line."""

    def next_line(self) -> SourceLine | None:
        """The following line of the same text, which is taken; None at its end."""

    def number_of(self, text: str, column: int) -> int:
        """The value of an expression that starts at a column of the line. Raises Fault."""

    def operands_of(self, text: str) -> tuple[ParsedOperand, ...]:
        """The operands of a statement. Raises Fault."""

    def report(self, line: SourceLine, fault: Fault) -> None:
        """Note a fault of a line that was taken."""

    @property
    def section(self) -> str:
        """The section that statements go to."""


class FrontEnd(Protocol):
    """The front end of one source. It sees the source twice: first for what it declares."""

    def begin(self, *, declaring: bool) -> None:
        """Begin to see the source from its first line, to expand it or for what it declares."""

    def expand(self, line: SourceLine, context: Expansion) -> Iterable[SourceLine] | None:
        """The lines that a line stands for; None for one that stands for itself. Raises Fault."""

    def closing(self) -> Iterable[str]:
        """Lines behind the last one of the source. Raises Fault for what is left open."""


class Language(Protocol):
    """A family with a language of its own; `suffix` marks its files, `machine` is the one that they
    are for where none is named.
    """

    suffix: str
    machine: str
    definition: re.Pattern[str]
    """Lines that define a name, its group `name`."""
    words: tuple[str, ...]
    """Words that may begin a line besides mnemonics and directives."""

    def front_end(self, table: InstructionTable) -> FrontEnd:
        """A front end for one source."""

    def is_needed(self, text: str) -> bool:
        """True if a source has lines for the front end."""

    def describe(self, word: str) -> str:
        """The meaning of a word of the language, without its mark; "" for an unknown one."""

    def maps(self, source: Object) -> Sequence[str]:
        """Rows that show where the data of an object or image lies, beyond its symbols."""


LANGUAGES: Capability[Language] = Capability(
    "language",
    ("front_end", "is_needed", "definition", "describe", "maps", "suffix", "machine", "words"),
    "language of its own",
)


@cache
def language_of(instruction_set: str) -> Language | None:
    """The language of an instruction set's family, None where it has none of its own."""
    files = table_files()
    if instruction_set not in files:
        return None
    return LANGUAGES.of_family(find_family(files[instruction_set][0]))


def front_end_of(table: InstructionTable, text: str) -> FrontEnd | None:
    """The front end that the source of a table needs, None where it needs none."""
    language = language_of(table.instruction_set)
    if language is None or not language.is_needed(text):
        return None
    return language.front_end(table)


def nearest_word(table: InstructionTable, word: str) -> str:
    """The fix that names the mnemonic or word of the language closest to one; empty for none."""
    language = language_of(table.instruction_set)
    words = () if language is None else language.words
    return did_you_mean(word, (*table.mnemonics, *words))


def maps_of(source: Object) -> Sequence[str]:
    """The rows that the language of an object's instruction set adds to its summary."""
    language = language_of(source.instruction_set)
    return () if language is None else language.maps(source)


def machine_of_file(path: Path) -> str | None:
    """The machine that a file is for by its suffix, None where no language has that suffix."""
    for name in LANGUAGES.families():
        language = LANGUAGES.of_family(find_family(name))
        if language is not None and language.suffix == path.suffix:
            return language.machine
    return None
