"""Titles of modules, read from their text alone."""

from __future__ import annotations

from pathlib import Path

from tilewright.common.modules import Titled, titled_below, titles_below


def test_modules_with_a_title_are_found_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.py").write_text('import nothing\nNAME = "x"\nTITLE = "the first"\n')
    (tmp_path / "two.py").write_text('TITLE = "the second"\n')
    (tmp_path / "three.py").write_text('def run():\n    TITLE = "inside"\n')
    assert titles_below(tmp_path) == {"deep/one": "the first", "two": "the second"}


def test_a_module_with_several_titles_makes_each_of_them(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "both.py").write_text('TITLES = {"b": "the second", "a": "the first"}\n')
    assert titled_below(tmp_path) == {
        "deep/a": Titled("the first", "deep/both"),
        "deep/b": Titled("the second", "deep/both"),
    }
