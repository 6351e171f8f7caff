"""Assembly text to an object: expansion, first pass, second pass.

`assemble` takes text, `assemble_file` a path; both raise `SourceErrors` with all that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tilewright.asm.diagnostics import Fault, Reporter, SourceErrors, SourceLine
from tilewright.asm.directives import Directive, directives
from tilewright.asm.emit import emit_object
from tilewright.asm.error_codes import SourceError
from tilewright.asm.first_pass import FirstPass
from tilewright.asm.front_end import FrontEnd, front_end_of
from tilewright.asm.limits import DEFAULT_LIMITS, Limits
from tilewright.asm.objects.object import Object
from tilewright.asm.objects.sections import SectionSet
from tilewright.asm.suggest import did_you_mean
from tilewright.asm.text.budget import Budget
from tilewright.asm.text.collector import collector_paused
from tilewright.asm.text.expand import EXPANSION_WORDS, Expander
from tilewright.asm.text.parse import line_parser
from tilewright.asm.text.parsed import ParsedLine
from tilewright.asm.text.source import IncludeFolder, SourceText, decode_source
from tilewright.common.errors import AssemblyError
from tilewright.common.files import read_file
from tilewright.isa import InstructionTable
from tilewright.isa.dialect import GNU_SECTIONS


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
    Errors: SourceErrors, an AssemblyError with file, line, column, caret and fix of everything that
    is wrong.
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
    """Show the front end what the source declares; errors are left to the next pass."""
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
    """Sections, offsets and symbols of a source."""
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


def assemble_file(
    path: Path, table: InstructionTable, *, limits: Limits = DEFAULT_LIMITS
) -> Object:
    """The object of an assembly file; it may include files of its folder. Errors: AssemblyError."""
    try:
        source = read_file(path)
    except OSError as error:
        raise AssemblyError(f"cannot read it: {error.strerror}", where=str(path)) from error
    return assemble(source, table, filename=path.name, folder=path.parent, limits=limits)


def _place(
    layout: FirstPass, line: SourceLine, parsed: ParsedLine, known: Mapping[str, Directive]
) -> None:
    """Labels, then the statement of a line."""
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
