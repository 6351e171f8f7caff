"""Packages that register objects in an entry-point group: their names, folders and files.

Reading data files never imports a package's code: its folder is located by its module's name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from tilewright.common.errors import ToolError

FAMILIES = "tilewright.targets"
"""The group under which families of machines register (`machine.family`)."""


def registered(group: str, noun: str) -> Mapping[str, EntryPoint]:
    """Entry points of a group by name; `noun` is the kind of object in errors, such as "target".

    The result is cached until a package is installed or removed. Raises ToolError if two packages
    register different objects under one name.
    """
    return _registered(group, noun, tuple(map(_changed, sys.path)))


@cache
def _registered(group: str, noun: str, _: tuple[object, ...]) -> Mapping[str, EntryPoint]:
    return _unique(entry_points(group=group), noun)


def _changed(folder: str) -> tuple[str, int]:
    """A folder on the import path and its modification time, which changes on installation."""
    try:
        return folder, os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return folder, 0


def _unique(found: Iterable[EntryPoint], noun: str) -> dict[str, EntryPoint]:
    """One entry point per name; equal entries, as after a double installation, do not conflict."""
    unique: dict[str, EntryPoint] = {}
    for entry in found:
        other = unique.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise ToolError(
                f"two {noun}s are called {entry.name!r}: {other.value} and {entry.value}",
                fix="uninstall one of the two packages",
            )
    return dict(sorted(unique.items()))


@cache
def package_folder(entry: EntryPoint) -> Path | None:
    """The folder of the package that an entry point names; None if it does not exist."""
    try:
        spec = find_spec(entry.module)
    except ImportError:
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def brought_files(group: str, noun: str, folder: str, what: str) -> dict[str, tuple[str, Path]]:
    """The TOML files in `folder` of all registered packages: the package's name and path, by stem.

    `what` names what a file describes, such as "machine". Raises ToolError if two packages have
    files of one name.
    """
    found: dict[str, tuple[str, Path]] = {}
    for name, entry in registered(group, noun).items():
        place = package_folder(entry)
        for path in sorted((place / folder).glob("*.toml")) if place else ():
            other, _ = found.setdefault(path.stem, (name, path))
            if other != name:
                raise ToolError(
                    f"two {noun}s bring the {what} {path.stem!r}: {other} and {name}",
                    fix="uninstall one of the two packages",
                )
    return dict(sorted(found.items()))
