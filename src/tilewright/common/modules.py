"""Modules that are found by their place in a folder and a TITLE, read without importing them."""

from __future__ import annotations

import ast
from pathlib import Path


def titles_below(folder: Path) -> dict[str, str]:
    """`FOLDER/MODULE` or `MODULE` -> title of each module below that has one, sorted by name."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        title = _title(path)
        if title is not None:
            found[path.relative_to(folder).with_suffix("").as_posix()] = title
    return found


def _title(path: Path) -> str | None:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TITLE":
            return str(ast.literal_eval(node.value))
    return None
