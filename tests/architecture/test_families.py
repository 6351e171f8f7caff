"""A family is asked for capabilities: no code outside its folder guesses or names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "tilewright"
OWN = ("targets", "papers")
"""Families, and the experiments of papers, which are about one machine."""
FAMILIES = sorted(p.parent.name for p in (SOURCES / "targets").glob("*/__init__.py"))
NUMBERS = ("caches", "synchronous")
"""Fields that one family alone has, which used to stand for the family."""


def shared_modules() -> list[Path]:
    found = sorted(SOURCES.rglob("*.py"))
    return [path for path in found if path.relative_to(SOURCES).parts[0] not in OWN]


def compared_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts that something is compared with, or looked up by in a match."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left, _, comparators):
                for part in (left, *comparators):
                    for leaf in ast.walk(part):
                        if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                            yield leaf.lineno, leaf.value
            case ast.MatchValue(ast.Constant(str() as text)):
                yield node.lineno, text


def machines_of(family: str) -> list[str]:
    return [path.stem for path in (SOURCES / "targets" / family / "machines").glob("*.toml")]


def test_shared_code_compares_nothing_with_a_family_or_its_machines() -> None:
    names = {name for family in FAMILIES for name in (family, *machines_of(family))}
    found = [
        f"{path}, line {line}: {text!r}"
        for path in shared_modules()
        for line, text in compared_texts(ast.parse(path.read_text(encoding="utf-8")))
        if text in names
    ]
    assert not found


def test_shared_code_does_not_guess_the_family_from_a_number() -> None:
    attributes = re.compile(rf"\.(?:{'|'.join(NUMBERS)})\b")
    found = [
        f"{path}, line {i}: {line}"
        for path in shared_modules()
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if attributes.search(line)
    ]
    assert not found


def test_the_families_are_those_that_the_project_registers() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = text.split('[project.entry-points."tilewright.targets"]\n')[1].split("\n[")[0]
    assert sorted(line.split(" = ")[0] for line in table.splitlines() if " = " in line) == FAMILIES
