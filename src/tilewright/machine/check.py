"""Checks of a machine description beyond the types of its fields, and the wording of errors.

In: the merged TOML tree or the typed machine. Out: nothing, or `MachineError` that names the file,
the key, what was expected and what was found.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tilewright.common.dtypes import KNOWN_NAMES, dtype_or_none
from tilewright.common.errors import MachineError
from tilewright.machine.keys import Tree, document_key
from tilewright.machine.model import Leaf, Machine, leaves
from tilewright.machine.parts import ROLES, Direction

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names of machines, targets and tables, which are keys and never paths."""
NAMED = "a name of letters, digits, - and _"
_ELEMENTS = re.compile(r"[A-Za-z0-9.,:]{1,100}", re.ASCII)

LONGEST_DESCRIPTION = 200
SMALLEST_NUMBER, LARGEST_NUMBER = 1e-12, 1e15
"""Limits of plausible numbers; products of larger ones could exceed 64 bits."""

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


def refuse(
    where: str, error: msgspec.ValidationError, table: Tree, path: str, known: Iterable[str]
) -> MachineError:
    """The error of a failed conversion of the `table` at `path`: file, key, expectation, finding.

    `known` are the keys that the table may have.
    """
    match = _AT_PATH.match(str(error))
    what, name = (match["what"], match["path"]) if match else (str(error), "")
    if unknown := _UNKNOWN.match(what):
        return unknown_key(where, document_key(_join(path, unknown["key"])), known)
    if missing := _MISSING.match(what):
        return missing_key(where, document_key(_join(path, missing["key"])))
    expected = _EXPECTED.match(what)
    wanted = _in_words(expected["what"]) if expected else what
    found = shown(table.get(name.partition("[")[0]))
    key = document_key(_join(path, name))
    return MachineError(f"{key}: expected {wanted}, found {found}", where=where)


def missing_key(where: str, path: str) -> MachineError:
    """The error about a missing key at `path`."""
    fix = "give it, and its source under [sources]"
    return MachineError(f"{path} is missing", where=where, fix=fix)


def unknown_key(where: str, path: str, known: Iterable[str]) -> MachineError:
    """The error about the unknown key at `path`, with the nearest `known` one or the keys below."""
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
    """Raise MachineError for the first contradiction between the numbers of `machine`."""
    for path, value in leaves(machine):
        if not all(NAME.fullmatch(name) for name in path.split(".")):
            raise MachineError(f"{shown(path)}: expected {NAMED} for each table", where=where)
        wanted = _expected_form(path, value)
        if wanted:
            raise MachineError(f"{path}: expected {wanted}, found {shown(value)}", where=where)
    for problem in _problems(machine):
        raise MachineError(problem, where=where)


def _problems(machine: Machine) -> Iterator[str]:
    """Contradictions, each as key, expectation and finding."""
    for name, space in machine.memory.items():
        path = f"memory.{name}"
        if space.reserved_bytes >= space.capacity_bytes:
            yield (
                f"{path}.reserved_bytes: expected less than {path}.capacity_bytes = "
                f"{space.capacity_bytes}, found {space.reserved_bytes}"
            )
        yield from _power_of_two(f"{path}.alignment_bytes", space.alignment_bytes)
    for name, engine in machine.engines.items():
        path = document_key(f"engines.{name}")
        yield from _power_of_two(f"{path}.transaction_bytes", engine.transaction_bytes)
        for way, direction in engine.directions.items():
            yield from _direction_problems(f"{path}.{way}", direction, machine)
    yield from _arithmetic_problems(machine)
    for section in machine.sections:
        if problem := section.problem(machine):
            yield problem


def _power_of_two(path: str, number: int) -> Iterator[str]:
    if number & (number - 1):
        yield f"{path}: expected a power of two, found {number}"


def _direction_problems(path: str, direction: Direction, machine: Machine) -> Iterator[str]:
    for key, name in (("reads", direction.reads), ("writes", direction.writes)):
        if name not in machine.memory:
            known = ", ".join(machine.memory)
            yield f"{path}.{key}: expected one of the memories {known}, found {shown(name)}"
    if direction.bytes_per_cycle is not None:
        peak = direction.bytes_per_cycle * direction.channels * machine.clock_hz
        if direction.peak_bytes_per_second != peak:
            yield (
                f"{path}.bytes_per_cycle: expected it or {path}.peak_bytes_per_second, found both"
            )


def _arithmetic_problems(machine: Machine) -> Iterator[str]:
    """Problems with element types of rates and sums, and with the roles of memories."""
    rates = machine.core.arithmetic
    if not rates:
        yield "core.arithmetic: expected the rates of at least one element type, found none"
    for name, rate in rates.items():
        path = document_key(f"core.arithmetic.{name}")
        if rate.element_bytes is None and dtype_or_none(name) is None:
            yield f"{path}.element_bytes: expected a number for a type that is not {KNOWN_NAMES}"
        if rate.sums is not None and rate.sums not in rates and dtype_or_none(rate.sums) is None:
            yield f"{path}.sums: expected one of {KNOWN_NAMES}, found {shown(rate.sums)}"
    for name, space in machine.memory.items():
        for held in space.holds:
            if held not in ROLES:
                yield (
                    f"memory.{name}.holds: expected some of {', '.join(ROLES)}, found {shown(held)}"
                )


def _expected_form(path: str, value: Leaf) -> str:
    """The form that `value` must have, in words; empty if it is valid."""
    match value:
        case str() if path == "description":
            is_line = value.isprintable() and len(value) <= LONGEST_DESCRIPTION
            return "" if is_line else f"a line of at most {LONGEST_DESCRIPTION} characters"
        case str() if path == "core.elements":
            return "" if _ELEMENTS.fullmatch(value) else "element types, as q8.8:q48.16:q8.8"
        case str() if not value and path == "target":
            return ""
        case str():
            return "" if NAME.fullmatch(value) else NAMED
        case tuple():
            return next(filter(None, (_expected_form(path, one) for one in value)), "")
        case float() if not math.isfinite(value):
            return "a finite number"
        case _:
            usual = value == 0 or SMALLEST_NUMBER <= abs(value) <= LARGEST_NUMBER
            return "" if usual else f"0 or {SMALLEST_NUMBER:g} to {LARGEST_NUMBER:g}"


def check_sources(where: str, tree: Tree, sources: Mapping[str, object]) -> None:
    """Raise MachineError unless each number has a source text and each source a number."""
    known = dict(tree_leaves(tree))
    for path, value in known.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and path not in sources:
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


def capacity_setting(space: str, size_bytes: int) -> str:
    """The `--set` option for a memory of this size; empty beyond the largest allowed number."""
    if size_bytes > LARGEST_NUMBER:
        return ""
    return f"--set memory.{space}.capacity_bytes={size_bytes}"


def tree_leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, object]]:
    """The dotted path and value of each leaf of nested tables."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from tree_leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def shown(value: object) -> str:
    """A value for a message: its text, cut to fit a line."""
    text = "a table" if isinstance(value, Mapping) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _in_words(expectation: str) -> str:
    """`int` >= 1 -> an integer >= 1."""
    return re.sub(r"`(\w+)`", lambda match: _TYPE_WORDS.get(match[1], match[1]), expectation)


def same_kind(value: Leaf) -> str:
    """The type required of a replacement for `value`, in words."""
    return _TYPE_WORDS[type(value).__name__]
