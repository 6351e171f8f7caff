"""Counts of what makes the sources hard to follow; a limit is what was reached, and only falls."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.code_lines import lines_of_an_operator

SOURCES = Path(__file__).parents[2] / "src"
MOST_FILES = {
    **dict.fromkeys(("cli", "network", "partition", "compiler", "report"), 25),
    "papers.cns1": 14,
}
"""Modules of a folder, its `__init__` apart."""
MOST_WITH_ONE_IMPORTER = 65
MOST_SHARED_NAMES = 26
MOST_INNER_IMPORTS = 1
"""One of an optional package."""
MOST_ASKED_LOWERINGS = 22
MOST_LINES_OF_AN_OPERATOR = 12.0
"""On average, of all code that translates or folds operators of ONNX, imports and tables too."""


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, by its dotted name."""
    return {
        ".".join(path.relative_to(SOURCES).with_suffix("").parts): ast.parse(path.read_text())
        for path in sorted(SOURCES.rglob("*.py"))
        if path.name not in ("__init__.py", "__main__.py")
    }


def imported(tree: ast.Module) -> Iterator[str]:
    """Dotted names that a module imports, deferred ones included."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Call(func=ast.Name(id="Deferred" | "import_module"), args=[ast.Constant(v)]):
                yield str(v)


def importers() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name, tree in modules().items():
        for other in set(imported(tree)) & set(modules()):
            found[other].add(name)
    return found


def with_one_importer() -> list[str]:
    return sorted(name for name, own in importers().items() if len(own) == 1)


def shared_names() -> list[str]:
    """Public classes and functions that two modules or more define."""
    places: dict[str, int] = defaultdict(int)
    for tree in modules().values():
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                places[node.name] += 1
    return sorted(name for name, count in places.items() if count > 1)


def inner_imports() -> list[str]:
    """Modules with imports inside functions."""
    return sorted(
        name
        for name, tree in modules().items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def asked_lowerings() -> list[str]:
    """Modules outside families that ask a machine for its lowering, once for each place."""
    return sorted(
        name
        for name, tree in modules().items()
        if not name.startswith("tilewright.targets.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "lowering_of"
    )


@pytest.mark.parametrize(
    ("count", "most"),
    [
        (with_one_importer, MOST_WITH_ONE_IMPORTER),
        (shared_names, MOST_SHARED_NAMES),
        (inner_imports, MOST_INNER_IMPORTS),
        (asked_lowerings, MOST_ASKED_LOWERINGS),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_count_only_falls(count, most):
    assert len(count()) == most, "a limit that is not reached any more is lowered"


def test_an_operator_of_the_front_end_costs_few_lines():
    assert lines_of_an_operator() <= MOST_LINES_OF_AN_OPERATOR


@pytest.mark.parametrize(("folder", "most"), MOST_FILES.items())
def test_a_folder_does_not_grow(folder, most):
    own = [name for name in modules() if name.split(".")[1:-1] == folder.split(".")]
    assert len(own) <= most, own
