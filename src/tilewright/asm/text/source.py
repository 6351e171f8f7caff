"""Reading of assembly sources: bytes to lines, and files that a source includes.

Included files must be in the folder of the assembled file or below it, so that a source cannot read
other files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilewright.asm.diagnostics import (
    Diagnostic,
    Fault,
    SourceError,
    SourceErrors,
    SourceLine,
    Span,
)
from tilewright.asm.limits import Limits


@dataclass(frozen=True, slots=True)
class SourceText:
    """A decoded source: its name in messages, and its lines."""

    name: str
    lines: tuple[str, ...]

    def numbered(self, parent: SourceLine | None = None, origin: str = "") -> Iterator[SourceLine]:
        """The source's lines; with a parent, as lines of an included file."""
        for number, text in enumerate(self.lines, 1):
            if parent is None:
                yield SourceLine(self.name, number, text)
            else:
                yield parent.child(self.name, number, text, origin)


def decode_source(name: str, source: str | bytes, limits: Limits) -> SourceText:
    """The lines of a source. Raises SourceErrors if it is too large or not UTF-8."""
    data = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(data) > limits.source_bytes:
        raise _fault(
            SourceLine(name, 1, ""),
            1,
            SourceError.LIMIT,
            f"{len(data)} bytes exceed the limit of {limits.source_bytes}",
            "split it into several objects",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line_start = data.rfind(b"\n", 0, error.start) + 1
        shown = data[line_start : line_start + limits.line_characters].split(b"\n")[0]
        number = data.count(b"\n", 0, error.start) + 1
        raise _fault(
            SourceLine(name, number, shown.decode("utf-8", "replace")),
            len(data[line_start : error.start].decode("utf-8")) + 1,
            SourceError.ENCODING,
            f"byte {data[error.start]:#04x} is not UTF-8",
            "save it as UTF-8",
        ) from None
    rows = text.removesuffix("\n").split("\n")
    return SourceText(name, tuple(row.removesuffix("\r") for row in rows))


def _fault(
    line: SourceLine, column: int, code: SourceError, message: str, fix: str
) -> SourceErrors:
    return SourceErrors([Diagnostic(line, Span(column), code, message, fix)])


@dataclass(frozen=True, slots=True)
class IncludeFolder:
    """The files that `.include` may read: `folder` and below; none without a folder."""

    folder: Path | None
    limits: Limits

    def read(self, name: str, span: Span) -> SourceText:
        """An included file. Raises Fault if outside or missing, SourceErrors if not UTF-8."""
        if self.folder is None:
            raise Fault(
                SourceError.INCLUDE,
                "this source has no folder to include from",
                span,
                fix="assemble a file",
            )
        try:
            root = self.folder.resolve()
            path = (root / name).resolve()
            if not path.is_relative_to(root):
                raise Fault(
                    SourceError.INCLUDE,
                    f"'{name}' lies outside the folder of the source",
                    span,
                    fix="include only files of that folder or below it",
                )
            if not path.is_file():
                raise Fault(
                    SourceError.INCLUDE, f"no file '{name}' in the folder of the source", span
                )
            if path.stat().st_size > self.limits.source_bytes:
                raise Fault(
                    SourceError.LIMIT,
                    f"'{name}' is larger than {self.limits.source_bytes} bytes",
                    span,
                )
            return decode_source(name, path.read_bytes(), self.limits)
        except (OSError, ValueError, RuntimeError) as error:
            raise Fault(SourceError.INCLUDE, f"cannot read '{name}': {error}", span) from None
