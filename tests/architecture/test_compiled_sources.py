"""Entries of compiled functions depend on every source that they are compiled from."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tilewright
from tilewright.common.digest import digest_of_code

SOURCES = Path(tilewright.__file__).parent


def modules_with_entry_points() -> list[str]:
    """Modules that keep compiled functions, by name."""
    found = (path for path in SOURCES.rglob("*.py") if "\n@entry_point(" in path.read_text())
    return [".".join(("tilewright", *p.relative_to(SOURCES).with_suffix("").parts)) for p in found]


def imported(module: ModuleType) -> Iterator[ModuleType]:
    """The modules of the package whose names a module takes, itself included, and theirs."""
    seen: dict[str, ModuleType] = {}
    waiting = [module]
    while waiting:
        one = waiting.pop()
        if one.__name__ not in seen:
            seen[one.__name__] = one
            waiting += [importlib.import_module(name) for name in names_imported_by(one)]
    yield from seen.values()


def names_imported_by(module: ModuleType) -> Iterator[str]:
    for node in ast.parse(Path(str(module.__file__)).read_text()).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tilewright."):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                path = SOURCES.parent.joinpath(*inner.split("."))
                yield inner if path.with_suffix(".py").exists() else str(node.module)


def entry_points(module: ModuleType) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(module).items()
        if type(getattr(value, "_cache", None)).__name__ == "_FunctionCache"
        and value.__module__ == module.__name__
    }


@pytest.mark.parametrize("name", modules_with_entry_points())
def test_the_key_of_a_compiled_function_covers_all_that_its_module_imports(name: str) -> None:
    module = importlib.import_module(name)
    functions = entry_points(module)
    assert functions
    needed = {
        one.__name__: digest_of_code(path.parent, [path.name])
        for one in imported(module)
        for path in (Path(str(one.__file__)),)
        if not one.__name__.startswith("tilewright.common.")
    }
    for function in functions.values():
        missing = [name for name, d in needed.items() if d not in function._cache._decides]
        assert missing == []
