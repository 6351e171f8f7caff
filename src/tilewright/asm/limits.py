"""Bounds of the assembler: what one source may cost in lines, bytes, depth and errors.

Every loop and every buffer that a source can steer has its bound here, so that a wrong source ends
with a message and neither a hang nor an exhausted memory.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest source that is accepted; a caller with a larger one passes its own.

    `object_bytes` are those of sections with contents, `reserved_bytes` those of the others.
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
