"""Checks of a machine description beyond the types of its fields, and the wording of refusals.

In: the merged TOML tree or the typed machine. Out: nothing, or `MachineError` that names the file,
the key, what was expected and what was found.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import cast, get_args

import msgspec

from tilewright.common.errors import MachineError
from tilewright.machine.model import Leaf, Machine, leaves

Tree = Mapping[str, object]

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What may name a machine, a target or a table: names are keys and never paths."""

LONGEST_DESCRIPTION = 200
SMALLEST_NUMBER, LARGEST_NUMBER = 1e-12, 1e15
"""Beyond, no number describes a machine, and products of some would leave 64 bits."""

_AT_PATH = re.compile(r"^(?P<what>.*) - at `\$\.?(?P<path>[^`]*)`$", re.DOTALL)
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<key>.*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<key>.*)`$", re.DOTALL)
_EXPECTED = re.compile(r"^Expected (?P<what>.*?)(?:, got `[^`]*`)?$", re.DOTALL)
_TYPE_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a text",
    "object": "a table",
    "bool": "true or false",
}


def refuse(where: str, error: msgspec.ValidationError, tree: Tree) -> MachineError:
    """Word a failed conversion of `tree` as file, key, expectation and finding."""
    match = _AT_PATH.match(str(error))
    what, path = (match["what"], match["path"]) if match else (str(error), "")
    if unknown := _UNKNOWN.match(what):
        return unknown_key(where, _join(path, unknown["key"]), keys_of_struct(path))
    if missing := _MISSING.match(what):
        return MachineError(
            f"{_join(path, missing['key'])} is missing",
            where=where,
            fix="give it, and its source under [sources]",
        )
    expected = _EXPECTED.match(what)
    wanted = _in_words(expected["what"]) if expected else what
    return MachineError(
        f"{path}: expected {wanted}, found {shown(value_at(tree, path))}", where=where
    )


def unknown_key(where: str, path: str, known: Iterable[str]) -> MachineError:
    """Refuse the key at `path`, suggesting the nearest of the `known` full paths or names, or what
    lies below it.
    """
    choices, last = list(known), path.rpartition(".")[2]
    below = [key for key in choices if key.startswith(f"{path}.")]
    if below:
        return MachineError(f"{path} is a table", where=where, fix=f"keys: {', '.join(below)}")
    close = difflib.get_close_matches(path, choices, 1, 0.6) or difflib.get_close_matches(
        last, choices, 1, 0.5
    )
    fix = f"did you mean {close[0]}?" if close else f"known keys: {', '.join(choices)}"
    return MachineError(f"unknown key {path}", where=where, fix=fix)


def check_machine(where: str, machine: Machine) -> None:
    """Raise MachineError at the first contradiction between the numbers of `machine`."""
    for path, value in leaves(machine):
        wanted = _wanted(path, value)
        if wanted:
            raise MachineError(f"{path}: expected {wanted}, found {shown(value)}", where=where)
    spm = machine.memory.spm
    if spm.reserved_bytes >= spm.capacity_bytes:
        raise MachineError(
            f"memory.spm.reserved_bytes: expected less than memory.spm.capacity_bytes = "
            f"{spm.capacity_bytes}, found {spm.reserved_bytes}",
            where=where,
        )
    for path, number in _powers_of_two(machine):
        if number & (number - 1):
            raise MachineError(f"{path}: expected a power of two, found {number}", where=where)
    _check_lanes(where, machine)
    if machine.primitives.gemm.partial_blocks and machine.cores > 1:
        raise MachineError(
            f"primitives.gemm.partial_blocks: expected a mesh of one core, found "
            f"{machine.mesh.rows} x {machine.mesh.columns}",
            where=where,
        )


def _wanted(path: str, value: Leaf) -> str:
    """What `value` should be instead, empty where it is well."""
    match value:
        case str() if path == "description":
            is_line = value.isprintable() and len(value) <= LONGEST_DESCRIPTION
            return "" if is_line else f"a line of at most {LONGEST_DESCRIPTION} characters"
        case str():
            return "" if NAME.fullmatch(value) else "a name of letters, digits, - and _"
        case float() if not math.isfinite(value):
            return "a finite number"
        case _:
            usual = value == 0 or SMALLEST_NUMBER <= abs(value) <= LARGEST_NUMBER
            return "" if usual else f"0 or {SMALLEST_NUMBER:g} to {LARGEST_NUMBER:g}"


def check_sources(where: str, machine: Machine, sources: Mapping[str, object]) -> None:
    """Raise MachineError unless each number has a source text and each source a number."""
    known = dict(leaves(machine))
    for path, value in known.items():
        if not isinstance(value, str | bool) and path not in sources:
            raise MachineError(
                f"{path} = {value} has no source",
                where=where,
                fix=f'add "{path}" = "where the number comes from" under [sources]',
            )
    for path, text in sources.items():
        if path not in known:
            raise unknown_key(where, f"sources.{path}", [f"sources.{key}" for key in known])
        if not isinstance(text, str) or not text.strip():
            raise MachineError(
                f"sources.{path}: expected a text that says where the number comes from, "
                f"found {shown(text)}",
                where=where,
            )


def keys_of_struct(path: str) -> list[str]:
    """The field names of the part of `Machine` at the dotted `path`, empty where it has none."""
    part: object = Machine
    for name in filter(None, path.split(".")):
        part = _given(next(field.type for field in _fields(part) if field.name == name))
    return [field.name for field in _fields(part)]


def value_at(tree: Tree, path: str) -> object:
    """The value at the dotted `path` of nested tables."""
    value: object = tree
    for name in filter(None, path.split(".")):
        value = cast(Tree, value)[name]
    return value


def shown(value: object) -> str:
    """A value for a message: its text, cut to a length that fits a line."""
    text = "a table" if isinstance(value, Mapping) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _given(kind: object) -> object:
    """The type of an optional part where it is given."""
    kinds = [one for one in get_args(kind) if one is not type(None)]
    return kinds[0] if isinstance(kind, UnionType) else kind


def _fields(part: object) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(part) if isinstance(part, type) else ()


def _powers_of_two(machine: Machine) -> Iterator[tuple[str, int]]:
    yield "memory.spm.alignment_bytes", machine.memory.spm.alignment_bytes
    yield "memory.main.alignment_bytes", machine.memory.main.alignment_bytes
    yield "dma.transaction_bytes", machine.dma.transaction_bytes


def _check_lanes(where: str, machine: Machine) -> None:
    lanes, vector_lanes = machine.primitives.gemm.lanes, machine.core.vector_lanes
    if lanes != vector_lanes:
        raise MachineError(
            f"primitives.gemm.lanes: expected core.vector_lanes = {vector_lanes}, found {lanes}",
            where=where,
        )


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _in_words(expectation: str) -> str:
    """`int` >= 1 -> an integer >= 1."""
    return re.sub(r"`(\w+)`", lambda match: _TYPE_WORDS.get(match[1], match[1]), expectation)


def same_kind(value: Leaf) -> str:
    """What a replacement for `value` has to be, in words."""
    return _TYPE_WORDS[type(value).__name__]
