"""The page for authors of families lists every module, its methods, and fields of `Lowering`."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from tilewright.passes.lowering import Lowering

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "add-a-family.md").read_text(encoding="utf-8")


def capabilities() -> Iterator[tuple[str, tuple[str, ...]]]:
    """(module, methods) of every capability that the sources ask for."""
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "= Capability(" in text else ():
            match node:
                case ast.AnnAssign(value=ast.Call(func=ast.Name(id="Capability"), args=args)):
                    module, methods, _ = (ast.literal_eval(argument) for argument in args)
                    yield module, methods


def test_every_module_is_in_the_table() -> None:
    found = {module for module, _ in capabilities()}
    assert len(found) >= 14
    assert [m for m in sorted(found) if f"| `{m}.py`, `{m.upper()}` |" not in PAGE] == []


def test_every_method_has_a_line() -> None:
    for module, methods in capabilities():
        rows = PAGE[PAGE.index(f"\n| `{module.upper()}` |") :].split("\n| `", 2)[1]
        assert [name for name in methods if f"`{name}`" not in rows] == [], module


@pytest.mark.parametrize("field", fields(Lowering), ids=lambda field: field.name)
def test_every_field_of_a_lowering_has_a_line(field) -> None:
    assert f"\n| `{field.name}` | " in PAGE
