"""Modules found by their path in a folder and their TITLE, which is read without importing them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Titled:
    """The title of one item, and the module that defines it, as `FOLDER/MODULE`."""

    title: str
    module: str


@cache
def titled_below(folder: Path) -> Mapping[str, Titled]:
    """Items by name, sorted. A module below with a TITLE is one item, `FOLDER/MODULE` or `MODULE`;
    a module with TITLES defines one item, `FOLDER/NAME`, per key. Each folder is read once.
    """
    found: dict[str, Titled] = {}
    for path in folder.rglob("*.py"):
        place = path.relative_to(folder).with_suffix("")
        for name, title in _titles(path).items():
            called = (place.parent / (name or place.name)).as_posix()
            found[called] = Titled(title, place.as_posix())
    return MappingProxyType(dict(sorted(found.items())))


def titles_below(folder: Path) -> dict[str, str]:
    """Name -> title of `titled_below`."""
    return {name: one.title for name, one in titled_below(folder).items()}


def _titles(path: Path) -> dict[str, str]:
    """The titles that a module declares, by name; its own TITLE has an empty name."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="TITLE")], value=value):
                return {"": str(ast.literal_eval(value))}
            case ast.Assign(targets=[ast.Name(id="TITLES")], value=value):
                found: dict[str, Any] = ast.literal_eval(value)
                return found
    return {}
