"""The arguments of a call or declaration as they are written, each with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.asm.diagnostics import Span

COMMENT = re.compile(r";|//")


@dataclass(frozen=True)
class ArgumentText:
    """An argument as text, and the column where it starts."""

    text: str
    column: int

    @property
    def span(self) -> Span:
        return Span(self.column, max(len(self.text), 1))


def argument_texts(text: str, column: int) -> list[ArgumentText]:
    """The arguments between commas outside brackets, without the comment."""
    text = COMMENT.split(text)[0]
    if not text.strip():
        return []
    found, start, depth = [], 0, 0
    for place, char in enumerate([*text, ","]):
        depth += (char == "(") - (char == ")")
        if char == "," and (depth <= 0 or place == len(text)):
            part = text[start:place]
            indent = len(part) - len(part.lstrip())
            found.append(ArgumentText(part.strip(), column + start + indent))
            start = place + 1
    return found
