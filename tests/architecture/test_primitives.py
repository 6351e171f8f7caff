"""A primitive is known by its type: no code tells primitives apart by their names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tilewright
from tilewright.ir.primitives import primitive_names

PACKAGE = Path(tilewright.__file__).parent
OPERATOR_NAMES = {"cli": {"gemm"}, "compiler": {"gemm"}}
"""Names of operators in the sense of users, by package."""


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of each string that something is compared with or matched against."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left, _, others):
                parts = [left, *others]
            case ast.MatchValue(value):
                parts = [value]
            case ast.Call(ast.Attribute(attr="startswith" | "endswith"), parts):
                pass
            case _:
                continue
        for part in parts:
            found = part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
            for constant in found:
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                    yield node.lineno, constant.value


def test_no_primitive_is_known_by_its_name():
    names = set(primitive_names())
    assert {"gemm", "copy", "winograd_input"} <= names
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in compared(ast.parse(path.read_text(encoding="utf-8")))
        if text in names - OPERATOR_NAMES.get(path.relative_to(PACKAGE).parts[0], set())
    ]
    assert found == []


def test_the_check_sees_every_form_of_comparison():
    text = "a == 'x' and b in ('y', 'z')\nmatch c:\n    case 'w':\n        d.startswith('v')\n"
    assert sorted(t for _, t in compared(ast.parse(text))) == ["v", "w", "x", "y", "z"]
