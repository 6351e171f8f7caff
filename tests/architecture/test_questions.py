"""Code asks an operator what it is and has, and hardly anywhere for its class."""

import ast
from pathlib import Path

from support.every_operator import named_classes
from tilewright.ops.op import Op

SOURCES = Path(__file__).parents[2] / "src" / "tilewright"
ALLOWED = 5
"""Questions about classes outside `ops`, the front ends and seeds."""
INSIDE = (("ops",), ("seeds",), ("graph", "frontends"))
CLASSES = {found.__name__ for found in named_classes(Op)}


def asked(tree: ast.AST) -> list[int]:
    """Lines that ask for the class of an operator."""
    imported = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tilewright.ops")
        for alias in node.names
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchClass):
            kinds: ast.AST = node.cls
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        ):
            kinds = node.args[1]
        else:
            continue
        names = {n.id for n in ast.walk(kinds) if isinstance(n, ast.Name)}
        if {imported.get(name) for name in names} & CLASSES:
            found.append(node.lineno if isinstance(node, ast.Call) else node.cls.lineno)
    return found


def test_few_places_ask_for_the_class_of_an_operator():
    places = []
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).parts
        if not any(parts[: len(inside)] == inside for inside in INSIDE):
            lines = asked(ast.parse(path.read_text(encoding="utf-8")))
            places += [f"{path.relative_to(SOURCES)}:{line}" for line in lines]
    assert len(places) <= ALLOWED, places


def test_questions_are_found():
    text = (
        "from tilewright.ops import Conv2d as C\nisinstance(op, C | int)\nmatch op:\n case C(): 1\n"
    )
    assert asked(ast.parse(text)) == [2, 4]
