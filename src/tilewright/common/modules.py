"""Modules that are found by their place in a folder and a TITLE, read without importing them."""

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
    """The title of one thing, and the module below a folder that makes it, as `FOLDER/MODULE`."""

    title: str
    module: str


@cache
def titled_below(folder: Path) -> Mapping[str, Titled]:
    """Things by name, sorted: a module below that has a TITLE is one, `FOLDER/MODULE` or `MODULE`;
    one with TITLES has several beside it, `FOLDER/NAME` for each key. A folder is read once.
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
    """Titles that a module says by name; its own has none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="TITLE")], value=value):
                return {"": str(ast.literal_eval(value))}
            case ast.Assign(targets=[ast.Name(id="TITLES")], value=value):
                found: dict[str, Any] = ast.literal_eval(value)
                return found
    return {}
