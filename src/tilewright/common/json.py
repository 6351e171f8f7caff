"""Frozen values: the fields of their types, and JSON text."""

from __future__ import annotations

from functools import cache

import msgspec
from msgspec.structs import FieldInfo


@cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    """The fields of a struct, whose annotations msgspec evaluates at each call."""
    return msgspec.structs.fields(kind)


def to_json(value: object) -> str:
    """A frozen value as indented JSON text."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
