"""Bounds of the assembler: limits of one source on lines, bytes, depth and errors.

Every loop and buffer that a source controls is bounded here, so that a wrong source ends with a
message instead of a hang or exhausted memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.asm.diagnostics import FatalFault, Fault, SourceError, SourceLine, Span


@dataclass(slots=True)
class Budget:
    """Lines and characters of the expanded source so far; `lines` also numbers the current line."""

    limits: Limits
    lines: int = 0
    characters: int = 0

    def spend(self, line: SourceLine) -> None:
        """Count a line. Raises Fault if it is too long, FatalFault if the total is too large."""
        limits = self.limits
        self.lines += 1
        self.characters += len(line.text)
        if self.lines > limits.expanded_lines:
            raise FatalFault(
                SourceError.LIMIT,
                f"the source expands to more than {limits.expanded_lines} lines",
                fix="repeat less, or split it into several objects",
            )
        if self.characters > limits.expanded_characters:
            raise FatalFault(
                SourceError.LIMIT,
                f"the source expands to more than {limits.expanded_characters} characters",
            )
        if len(line.text) > limits.line_characters:
            raise Fault(
                SourceError.LIMIT,
                f"the line has {len(line.text)} characters, the limit is {limits.line_characters}",
                Span(limits.line_characters + 1),
            )


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest accepted source; callers with larger ones pass their own limits.

    `object_bytes` limits sections with contents, `reserved_bytes` all other sections.
    """

    source_bytes: int = 16 << 20
    line_characters: int = 4096
    expanded_lines: int = 250_000
    expanded_characters: int = 64 << 20
    expansion_depth: int = 64
    repetitions: int = 1 << 16
    expression_depth: int = 100
    object_bytes: int = 64 << 20
    reserved_bytes: int = 64 << 30
    alignment_bytes: int = 1 << 16
    errors: int = 20


DEFAULT_LIMITS = Limits()
