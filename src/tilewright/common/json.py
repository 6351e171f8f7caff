"""Structs: their fields, and their JSON text."""

from __future__ import annotations

from functools import cache

import msgspec
from msgspec.structs import FieldInfo


@cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    """The fields of a struct, cached because msgspec evaluates annotations on each call."""
    return msgspec.structs.fields(kind)


def to_json(value: object) -> str:
    """A struct as indented JSON text."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
