"""Families of machines: the entry-point group `tilewright.targets` in, `Family` values out.

A family is one package and one line of package metadata. Its folders `machines` and `isa` hold
descriptions. Its modules declare everything else that it can do: each `Capability` names a module
of the package and the methods of an object in it. Shipped families register like external ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from tilewright.common.errors import ToolError
from tilewright.common.plugins import FAMILIES, brought_files, registered
from tilewright.machine.model import Machine

T = TypeVar("T")


@dataclass(frozen=True)
class Family:
    """A family of machines: its name, and the package whose modules hold its capabilities."""

    name: str
    package: str


@dataclass(frozen=True)
class Capability(Generic[T]):
    """Something that some families can do and others cannot.

    A family has the capability if its module `module` defines an object of the same name in upper
    case with all `methods`. `what` completes the message "machine M has no ...".
    """

    module: str
    methods: tuple[str, ...]
    what: str

    def of_family(self, family: Family) -> T | None:
        """The family's object; None if it lacks the capability."""
        found = _part(family.package, self.module)
        return cast("T | None", found if all(hasattr(found, m) for m in self.methods) else None)

    def of(self, machine: Machine) -> T | None:
        """The object of the machine's family; None if it lacks the capability."""
        return self.of_family(find_family(machine.target)) if machine.target else None

    def required(
        self,
        machine: Machine,
        instead: str = "",
        also: Sequence[Capability[Any]] = (),
        beside: Sequence[Capability[Any]] = (),
    ) -> T:
        """The object of the machine's family. Raises ToolError that suggests what to do `instead`,
        and the machines with this or an `also` capability but none of `beside`.
        """
        found = self.of(machine)
        if found is None:
            others = {name for able in (self, *also) for name in able.families()}
            others -= {name for able in beside for name in able.families()}
            machines = [name for name, (f, _) in machine_files().items() if f in others]
            offer = f"take another machine: {', '.join(machines)}" if machines else ""
            raise ToolError(
                f"machine {machine.name!r} has no {self.what}",
                fix=", or ".join(part for part in (instead, offer) if part),
            )
        return found

    def families(self) -> tuple[str, ...]:
        """The names of all registered families with the capability."""
        return tuple(n for n in family_names() if self.of_family(find_family(n)) is not None)


def family_names() -> tuple[str, ...]:
    """The names of all registered families, sorted."""
    return tuple(registered(FAMILIES, "target"))


def find_family(name: str) -> Family:
    """The family registered as `name`.

    Raises ToolError if no package registers the name, if two packages register different families
    under it, or if the registered object is no family.
    """
    return _find(name, tuple(sys.path))


@cache
def _find(name: str, _: tuple[str, ...]) -> Family:
    """`find_family`, cached by the import path: a search queries it a million times, and a replaced
    package would stay loaded anyway.
    """
    found = registered(FAMILIES, "target")
    if name not in found:
        known = ", ".join(found) or "none; install the package, `pip install -e .` in a checkout"
        raise ToolError(f"unknown target {name!r}", fix=f"known targets: {known}")
    return _load(found[name])


def machine_files() -> dict[str, tuple[str, Path]]:
    """The machines of all families: the family's name and the TOML file, by machine."""
    return brought_files(FAMILIES, "target", "machines", "machine")


@cache
def _load(entry: EntryPoint) -> Family:
    try:
        family = entry.load()
    except (ImportError, AttributeError) as error:
        raise ToolError(
            f"target {entry.name!r} cannot be loaded from {entry.value}: {error}",
            fix="reinstall the package that registers it",
        ) from error
    if not isinstance(family, Family):
        raise ToolError(
            f"target {entry.name!r}: {entry.value} is not a family of machines",
            fix="register a tilewright.machine.Family",
        )
    if family.name != entry.name:
        raise ToolError(
            f"target {entry.name!r}: {entry.value} calls itself {family.name!r}",
            fix="register it under its own name",
        )
    return family


@cache
def _part(package: str, module: str) -> Any:
    """The capability object in one module of a family; None if the module does not exist."""
    name = f"{package}.{module}"
    if find_spec(name) is None:
        return None
    return getattr(import_module(name), module.upper(), None)
