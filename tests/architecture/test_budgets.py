"""Size budgets: no function over 50 lines, no file over 600, in sources, tests and scripts."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for folder in ("src", "tests", "benchmarks", "examples", "tools")
    for path in (ROOT / folder).rglob("*.py")
)  # fmt: skip
LONGEST_FUNCTION_LINES = 50
LONGEST_FILE_LINES = 600

EXCEPTIONS: dict[str, str] = {}
"""Path, or path::function, of what may be longer -> the reason."""


def names(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def too_long(path: Path) -> list[str]:
    """The file, and its functions, that are over budget."""
    text = path.read_text(encoding="utf-8")
    found = [names(path)] if len(text.splitlines()) > LONGEST_FILE_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > LONGEST_FUNCTION_LINES:
                found.append(f"{names(path)}::{node.name}")
    return found


def test_every_file_is_within_budget():
    over = [item for path in FILES for item in too_long(path)]
    assert [item for item in over if item not in EXCEPTIONS] == []


def test_each_exception_is_needed_and_has_a_reason():
    over = {item for path in FILES for item in too_long(path)}
    assert set(EXCEPTIONS) - over == set()
    assert all(reason.strip() for reason in EXCEPTIONS.values())


def test_the_budgets_are_measured(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "long.py"
    path.write_text("def f():\n" + "    pass\n" * 50 + "\n" * 550)
    assert too_long(path) == ["long.py", "long.py::f"]
