"""Fenced blocks of Markdown documents."""

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: where it starts, its language and its text."""

    where: str
    language: str
    text: str


def blocks_of(path: Path, root: Path) -> list[Block]:
    """The blocks of the document at `path`, in order."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(root)
    return [
        Block(f"{name}:{text.count(chr(10), 0, match.start()) + 1}", match[1], match[2])
        for match in _FENCE.finditer(text)
    ]
