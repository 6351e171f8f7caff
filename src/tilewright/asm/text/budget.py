"""Size of one source's expansion so far, held against the limits line by line."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.asm.diagnostics import FatalFault, Fault, SourceLine, Span
from tilewright.asm.error_codes import SourceError
from tilewright.asm.limits import Limits


@dataclass(slots=True)
class Budget:
    """Lines and characters of the expanded source; `lines` is also the place of this line."""

    limits: Limits
    lines: int = 0
    characters: int = 0

    def spend(self, line: SourceLine) -> None:
        """Count a line. Raises Fault for one that is too long, FatalFault for a total too large."""
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
