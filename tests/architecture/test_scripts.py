"""Scripts of benchmarks and tools name what is there: nothing else runs most of them."""

from __future__ import annotations

import ast
import csv
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [
    path
    for folder in ("benchmarks", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.stem != "__init__"
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_script_imports_of_the_package_is_there(script: Path) -> None:
    found = [n for n in ast.walk(ast.parse(script.read_text())) if isinstance(n, ast.ImportFrom)]
    for node in found:
        if node.module is None or node.module.partition(".")[0] != "tilewright":
            continue
        if ".torch" in node.module:
            pytest.importorskip("torch")
        module = importlib.import_module(node.module)
        for name in (alias.name for alias in node.names):
            here = hasattr(module, name) or _is_module(f"{node.module}.{name}")
            assert here, f"{node.module} has no {name}"


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def test_faults_that_change_no_result_are_of_lines_that_stand() -> None:
    with (ROOT / "tools/faults_equivalent.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [row for row in rows if None in {*row, *row.values()}] == [], "five columns"
    named = [(row["path"], row["line"]) for row in rows]
    gone = [
        f"{path}: {line}"
        for path, line in named
        if line not in map(str.strip, (ROOT / "src/tilewright" / path).read_text().splitlines())
    ]
    assert gone == []
