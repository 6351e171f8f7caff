"""Packages that bring something under an entry-point group: their names, folders and files.

What only reads data files never imports a package's code: its folder is found by its module's name.
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
    """Entry points of a group by name; `noun` is the kind of their objects, such as "target".

    They are looked up again when a package is installed or removed. Raises ToolError where two
    packages register different objects under one name.
    """
    return _registered(group, noun, tuple(map(_changed, sys.path)))


@cache
def _registered(group: str, noun: str, _: tuple[object, ...]) -> Mapping[str, EntryPoint]:
    return _unique(entry_points(group=group), noun)


def _changed(folder: str) -> tuple[str, int]:
    """A folder that packages are found in, and when something in it was last made or removed."""
    try:
        return folder, os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return folder, 0


def _unique(found: Iterable[EntryPoint], noun: str) -> dict[str, EntryPoint]:
    """One entry point per name: the same line seen twice (twice installed) is no clash."""
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
    """The folder of the package that an entry point names; None where it is not there."""
    try:
        spec = find_spec(entry.module)
    except ImportError:
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def brought_files(group: str, noun: str, folder: str, what: str) -> dict[str, tuple[str, Path]]:
    """Each TOML file in `folder` of a registered package, by stem: (name of the package, path).

    `what` is what a file describes, such as "machine". Raises ToolError where two packages bring
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
