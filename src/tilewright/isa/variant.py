"""Instruction tables built on another one: the base and the file's own tree in, the whole tree out.

A variant describes the same instruction set with another timing, so programs and objects serve
both tables. It says only what differs, and names a source for each part in which it sets a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from tilewright.common.errors import MachineError
from tilewright.isa.table import InstructionTable

Tree = dict[str, object]

_TIMED = ("issue", "communication", "instruction_cache")
_KEYS = ("base", "name", "description", *_TIMED, "sources", "instructions")
_INSTRUCTION_KEYS = ("mnemonic", "units", "latency_cycles", "occupancy_cycles", "source")


def built_on(base: InstructionTable, own: Mapping[str, object], *, where: str) -> Tree:
    """The tree of the table that `own` describes by its difference from `base`.

    Errors: MachineError for a key that is not timing, an unknown instruction, a missing source.
    """
    _check_keys(own, _KEYS, where)
    tree = cast(Tree, msgspec.to_builtins(base))
    tree |= {key: own[key] for key in ("name", "description") if key in own}
    for key in (*_TIMED, "sources"):
        change = _table(own.get(key, {}), key, where)
        if key in _TIMED and change:
            _check_source(change, key, where)
        if change:
            tree[key] = _table(tree[key] or {}, key, where) | change
    listed = cast(list[Tree], tree["instructions"])
    known = {str(spec["mnemonic"]): spec for spec in listed}
    for entry in cast(Iterable[object], own.get("instructions", ())):
        _change_instruction(known, _table(entry, "instructions", where), where)
    tree["instructions"] = list(known.values())
    return tree


def _change_instruction(known: dict[str, Tree], change: Tree, where: str) -> None:
    mnemonic = str(change.get("mnemonic"))
    label = f"instruction '{mnemonic}'"
    if mnemonic not in known:
        raise MachineError(f"{label}: the base has none", where=where)
    _check_keys(change, _INSTRUCTION_KEYS, where, f"{label}: ")
    _check_source(change, label, where)
    known[mnemonic] = known[mnemonic] | change


def _check_keys(
    tree: Mapping[str, object], keys: tuple[str, ...], where: str, label: str = ""
) -> None:
    for key in tree:
        if key not in keys:
            raise MachineError(
                f"{label}a table built on another changes its timing alone, not '{key}'",
                where=where,
                fix=f"it may set {', '.join(keys)}",
            )


def _check_source(tree: Tree, label: str, where: str) -> None:
    if "source" not in tree:
        numbers = ", ".join(key for key in tree if key != "mnemonic")
        raise MachineError(
            f"{label} sets {numbers} without a source",
            where=where,
            fix='add source = "KEY" and describe it under [sources.KEY]',
        )


def _table(value: object, key: str, where: str) -> Tree:
    if not isinstance(value, dict):
        raise MachineError(f"{key}: expected a table, found {value!r}", where=where)
    return value
