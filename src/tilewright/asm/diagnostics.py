"""Diagnostics of the assembler: position, the line with a caret, a code, cause and fix.

A stage raises `Fault` (columns only); the pass that knows the line turns it into a `Diagnostic` in
the `Reporter`; at the end all diagnostics of a source are raised together as `SourceErrors`. The
wording of a message may change between versions; its code does not. A family whose language adds
errors has an enumeration like `SourceError` next to its front end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from msgspec import Struct

from tilewright.common.errors import AssemblyError


class ErrorCode(Enum):
    """A code: its `number` as printed, and the `title` of its errors."""

    def __init__(self, number: str, title: str) -> None:
        self.number = number
        self.title = title


class SourceError(ErrorCode):
    """The errors in sources of any language."""

    SYNTAX = "A101", "the line does not follow the grammar"
    UNCLOSED = "A102", "a string or character constant has no closing quote"
    CONSTANT = "A103", "a constant cannot be read, or does not fit 64 bits"
    ENCODING = "A104", "the file is not UTF-8"
    INSTRUCTION = "A201", "the instruction table has no such instruction"
    DIRECTIVE = "A202", "there is no such directive"
    REGISTER = "A203", "the instruction table has no such register"
    UNDEFINED = "A204", "a symbol is not defined, or not yet where its value is needed"
    DEFINED_TWICE = "A205", "a name is defined a second time"
    RESERVED = "A206", "a name has a meaning already, or cannot be a name"
    SELF_REFERENCE = "A207", "a symbol is defined through itself"
    COUNT = "A301", "an instruction has too few operands or too many"
    KIND = "A302", "an operand is of the wrong kind"
    RANGE = "A303", "a value does not fit its field"
    MARK = "A304", "the mark of immediates is missing, or stands where it must not"
    ADDRESS = "A305", "an address stands where a number is needed, or the reverse"
    ARITHMETIC = "A306", "an expression has no value"
    READ_ONLY = "A307", "an instruction writes where its section is read-only"
    ARGUMENTS = "A401", "a directive has the wrong arguments"
    SECTION = "A402", "the section does not take this, or was opened differently"
    REFUSED = "A403", "the source itself refuses with .error"
    UNBALANCED = "A501", "a beginning has no end, or an end no beginning"
    MACRO = "A502", "the definition of a macro is wrong"
    CALL = "A503", "the arguments of a macro are not those that it takes"
    INCLUDE = "A504", "a file cannot be included"
    LIMIT = "A601", "the source exceeds a limit of the assembler"


_SHOWN_CHARACTERS = 120
_SHOWN_ORIGINS = 6


class SourceLine(Struct, frozen=True, gc=False):
    """A line as it is assembled; `parent` is the line that expanded to it, if any."""

    file: str
    number: int
    text: str
    parent: SourceLine | None = None
    origin: str = ""
    depth: int = 0

    def child(self, file: str, number: int, text: str, origin: str) -> SourceLine:
        """A line in the expansion of this one."""
        return SourceLine(file, number, text, self, origin, self.depth + 1)


class Span(Struct, frozen=True, gc=False):
    """Columns of a line: the first, counted from 1, and their number."""

    column: int
    length: int = 1


class Fault(AssemblyError):
    """An error in the current line; `span` is None for the whole line."""

    def __init__(
        self, error_code: ErrorCode, message: str, span: Span | None = None, *, fix: str = ""
    ) -> None:
        super().__init__(message, fix=fix)
        self.error_code = error_code
        self.span = span

    def again(self, *, span: Span | None = None, fix: str | None = None) -> Fault:
        """A plain fault with the same message, and another span or fix if given."""
        return Fault(
            self.error_code, self.message, span or self.span, fix=self.fix if fix is None else fix
        )


class Consequence(Fault):
    """A fault that follows from one reported elsewhere, and is not shown."""


class FatalFault(Fault):
    """A fault that ends the assembly: a limit is exceeded."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error of a source."""

    line: SourceLine
    span: Span
    error_code: ErrorCode
    message: str
    fix: str = ""

    @property
    def where(self) -> str:
        """`file:line:column`."""
        return f"{self.line.file}:{self.line.number}:{self.span.column}"

    def render(self) -> str:
        """The message with the source line, a caret, the fix and the macros around it."""
        source, caret = _excerpt(self.line.text, self.span)
        rows = [
            f"{self.where}: error {self.error_code.number}: {self.message}",
            f"    {source}",
            f"    {caret}",
        ]
        if self.fix:
            rows.append(f"  fix: {self.fix}")
        return "\n".join(rows + _origins(self.line))


def _excerpt(text: str, span: Span) -> tuple[str, str]:
    """The visible part of a line, with unprintable characters replaced, and carets below it."""
    shown = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)
    first = 0 if span.column <= _SHOWN_CHARACTERS - 20 else span.column - _SHOWN_CHARACTERS // 2
    shown = shown[first : first + _SHOWN_CHARACTERS]
    start = max(span.column - 1 - first, 0)
    pad = "".join("\t" if c == "\t" else " " for c in shown[:start].ljust(start))
    width = max(1, min(span.length, len(shown) - start))
    return shown, pad + "^" + "~" * (width - 1)


def _origins(line: SourceLine) -> list[str]:
    rows: list[str] = []
    while line.parent is not None:
        rows.append(f"  in {line.origin} at {line.parent.file}:{line.parent.number}")
        line = line.parent
    if len(rows) > _SHOWN_ORIGINS:
        left_out = len(rows) - _SHOWN_ORIGINS
        rows = [*rows[: _SHOWN_ORIGINS - 1], f"  ... {left_out} more ...", rows[-1]]
    return rows


class SourceErrors(AssemblyError):
    """All errors of a source; `message`, `where` and `fix` are of the first, `str()` shows all."""

    def __init__(self, diagnostics: Sequence[Diagnostic], *, left_out: bool = False) -> None:
        first = diagnostics[0]
        super().__init__(first.message, where=first.where, fix=first.fix)
        self.diagnostics = tuple(diagnostics)
        self.left_out = left_out

    def __str__(self) -> str:
        rows = [diagnostic.render() for diagnostic in self.diagnostics]
        count = len(self.diagnostics)
        if self.left_out:
            rows.append(f"stopped after {count} errors")
        elif count > 1:
            rows.append(f"{count} errors")
        return "\n".join(rows)

    def render(self) -> str:
        return str(self)


@dataclass(slots=True)
class Reporter:
    """Collects the diagnostics of one source.

    `structure_broken` is set if blocks or files are missing, since errors about unknown names in
    the second pass would mislead then.
    """

    limit: int
    found: list[tuple[int, Diagnostic]] = field(default_factory=list)
    seen: set[Diagnostic] = field(default_factory=set)
    structure_broken: bool = False

    def add(self, line: SourceLine, fault: Fault, order: int) -> None:
        """Add a fault of a line; `order` is the line's number in the expanded source."""
        if isinstance(fault, Consequence):
            return
        text = line.text.rstrip()
        indent = len(text) - len(text.lstrip())
        span = fault.span or Span(indent + 1, max(len(text) - indent, 1))
        diagnostic = Diagnostic(line, span, fault.error_code, fault.message, fault.fix)
        if diagnostic in self.seen:
            return
        self.seen.add(diagnostic)
        self.found.append((order, diagnostic))
        if isinstance(fault, FatalFault):
            self.structure_broken = True
            self.raise_if_any()
        if len(self.found) >= self.limit:
            raise SourceErrors(self._sorted(), left_out=True)

    def take(self, errors: SourceErrors, order: int) -> None:
        """Add the errors of an included file that cannot be read."""
        self.found.extend((order, diagnostic) for diagnostic in errors.diagnostics)
        self.structure_broken = True

    def raise_if_any(self) -> None:
        """Raise all errors, in source order, if there are any."""
        if self.found:
            raise SourceErrors(self._sorted())

    def _sorted(self) -> list[Diagnostic]:
        return [diagnostic for _, diagnostic in sorted(self.found, key=lambda pair: pair[0])]
