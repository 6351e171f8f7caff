"""Values as JSON text."""

from __future__ import annotations

import msgspec


def to_json(value: object) -> str:
    """A frozen value as indented JSON text."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
