"""From the tree of a machine file to the checked `Machine`, table by table.

In: nested tables in the short form of `keys`. Out: `Machine`, or `MachineError` that names file,
key, expectation and finding. Tables that only a family understands become the sections that its
module `sections` declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Literal, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Struct

from tilewright.common.errors import MachineError
from tilewright.common.json import fields_of
from tilewright.machine import check
from tilewright.machine.family import Capability, find_family
from tilewright.machine.keys import RATES, Tree, document_key, expanded_keys
from tilewright.machine.model import Core, Leaf, Machine, Section, document_of
from tilewright.machine.sections import Sections

SECTIONS: Capability[Sections] = Capability("sections", ("kinds", "needs"), "sections of its own")

T = TypeVar("T", bound=Struct)


def _machine_of(document: Tree, where: str) -> Machine:
    """The machine that a tree describes; its `sources` become pairs of key and text."""
    tree = dict(document)
    declared = _declared(tree.get("target"), where)
    for key in declared.needs:
        if _lacks(tree, key):
            raise check.missing_key(where, key)
    sections = tuple(_sections(tree, declared, where))
    if "sections" in tree:
        raise check.unknown_key(where, "sections", _known_keys(Machine))
    machine = _converted(Machine, expanded_keys(tree), "", where)
    machine = msgspec.structs.replace(machine, sections=sections)
    check.check_machine(where, machine)
    return machine


def described_machine(document: Tree, where: str) -> Machine:
    """The machine of a file, also checked for contradictions with its family's code."""
    machine = _machine_of(document, where)
    if problem := _declared(document.get("target"), where).problem(machine):
        raise MachineError(problem, where=where)
    return machine


def usual_value(tree: Tree, key: str, where: str) -> Leaf | None:
    """The family's default for the dotted `key` of its sections; None if there is none."""
    parent, _, name = key.rpartition(".")
    for kind in _declared(tree.get("target"), where).kinds:
        for found in fields_of(kind) if kind.key == parent else ():
            if found.name == name and isinstance(found.default, int | float | str):
                return found.default
    return None


def stored_machine(document: Tree, where: str = "") -> Machine:
    """The machine stored by `document_of`; older versions wrote null for missing values."""
    return _machine_of(cast("Tree", _without_nulls(document)), where)


def changed(machine: Machine, settings: Mapping[str, Leaf]) -> Machine:
    """The machine with the numbers at the given keys replaced; raises MachineError like a file."""
    document = document_of(machine)
    for key, value in settings.items():
        *parents, last = key.split(".")
        table = document
        for name in parents:
            table = cast("dict[str, object]", table[name])
        table[last] = value
    return _machine_of(document, machine.name)


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    return value


def _lacks(tree: Tree, key: str) -> bool:
    """True if the dotted `key` has no entry in the tree."""
    name, _, rest = key.partition(".")
    if name not in tree:
        return True
    below = tree[name]
    return bool(rest) and isinstance(below, Mapping) and _lacks(below, rest)


def _declared(target: object, where: str) -> Sections:
    """The sections that the family of `target` declares for its files."""
    if target is None:
        return Sections()
    if not isinstance(target, str) or not target:
        raise MachineError(
            f"target: expected a text of length >= 1, found {check.shown(target)}", where=where
        )
    if not check.NAME.fullmatch(target):
        raise MachineError(
            f"target: expected {check.NAMED}, found {check.shown(target)}", where=where
        )
    return SECTIONS.of_family(find_family(target)) or Sections()


def _sections(tree: dict[str, object], declared: Sections, where: str) -> list[Section]:
    """The sections of the tree, which are removed from it."""
    found = []
    for kind in declared.kinds:
        value = _pop_path(tree, kind.key.split("."))
        if value is not None:
            found.append(_converted(kind, value, kind.key, where))
        elif kind in declared.required:
            raise check.missing_key(where, kind.key)
    for root in {kind.key.split(".")[0] for kind in declared.kinds} & set(tree):
        rest = tree[root]
        if root not in Machine.__struct_fields__ and isinstance(rest, Mapping):
            for name in rest:
                names = [kind.key.rpartition(".")[2] for kind in declared.kinds]
                raise check.unknown_key(where, f"{root}.{name}", names)
            del tree[root]
    return found


def _pop_path(tree: dict[str, object], path: list[str]) -> object:
    """Remove the value at the path from the tree and return it; None if there is none."""
    name, *rest = path
    if not rest or name not in tree:
        return tree.pop(name, None)
    below = tree[name]
    if not isinstance(below, Mapping):
        return None
    tree[name] = own = dict(below)
    return _pop_path(own, rest)


def _converted(kind: type[T], value: object, path: str, where: str) -> T:
    """One table as the struct `kind`; nested tables first, so that messages name the whole key."""
    if not isinstance(value, Mapping):
        raise MachineError(
            f"{document_key(path)}: expected a table, found {check.shown(value)}", where=where
        )
    values = dict(value)
    for field in fields_of(kind):
        if field.name not in values:
            continue
        below, place = values[field.name], f"{path}.{field.name}" if path else field.name
        if get_origin(field.type) is Literal and below not in get_args(field.type):
            wanted = ", ".join(get_args(field.type))
            raise MachineError(
                f"{document_key(place)}: expected one of {wanted}, found {check.shown(below)}",
                where=where,
            )
        inner, several = _below(field.type)
        if inner is None:
            continue
        if several and isinstance(below, Mapping):
            values[field.name] = {
                name: _converted(inner, child, f"{place}.{name}", where)
                for name, child in below.items()
            }
        else:
            values[field.name] = _converted(inner, below, place, where)
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise check.refuse(where, error, values, path, _known_keys(kind)) from None


def _below(kind: object) -> tuple[type[Struct] | None, bool]:
    """The struct that a field holds, and True if it holds several by name; None if no struct."""
    if isinstance(kind, UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is Mapping:
        return get_args(kind)[1], True
    found = isinstance(kind, type) and issubclass(kind, Struct)
    return (cast("type[Struct]", kind) if found else None), False


def _known_keys(kind: type[Struct]) -> list[str]:
    """Keys allowed in the table of a struct, short forms included."""
    own = [field.name for field in fields_of(kind)]
    return [name for name in own if name != "sections"] + _SHORT_FORMS.get(kind, [])


_SHORT_FORMS: dict[type[Struct], list[str]] = {Machine: ["dma"], Core: [*RATES, "f32"]}
