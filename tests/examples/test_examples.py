"""Every script in examples/ runs as a user would run it, and prints the text that stands here.

In `<example>.txt` `...` stands for anything.
"""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.installed import ensure_installed

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
TEXTS = Path(__file__).parent
ONE_SCREEN = 70
"""Lines that a reader takes in at once."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "src"), *sys.path])
    ensure_installed(tmp_path / "metadata")
    work = tmp_path / "work"
    work.mkdir()
    run = subprocess.run(
        [sys.executable, example],
        cwd=work,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    expected = (TEXTS / f"{example.stem}.txt").read_text(encoding="utf-8")
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(expected, run.stdout, options), run.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_one_screen(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) <= ONE_SCREEN


def test_each_text_belongs_to_an_example() -> None:
    assert {path.stem for path in TEXTS.glob("*.txt")} == {path.stem for path in EXAMPLES}
