"""Folders that tilewright may replace: its own, with what was built in them, and empty ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright.codegen.folder import ArtifactError, require_replaceable

LISTS = {
    "kernel.json": {"files": ["gemm.c", "Makefile"]},
    "network.json": {"folders": {"first": "gemm.c", "second": "Makefile"}},
}
WAY_OUT = "give a new folder, or empty this one"


@pytest.fixture(params=LISTS)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with what its list names, and a library that was built from it."""
    (tmp_path / request.param).write_text(json.dumps(LISTS[request.param]))
    for name in ("gemm.c", "Makefile", "gemm.o", "gemm.a", "gemm.so", "program.ir"):
        (tmp_path / name).touch()
    return tmp_path


def refusal(folder: Path) -> str:
    with pytest.raises(ArtifactError) as caught:
        require_replaceable(folder)
    return str(caught.value)


def test_folders_that_are_replaced(written: Path) -> None:
    require_replaceable(written)
    require_replaceable(written / "absent")
    (written / "empty").mkdir()
    require_replaceable(written / "empty")


def test_files_of_others_are_named(written: Path) -> None:
    (written / "notes.txt").touch()
    assert refusal(written) == (
        f"{written}: holds 'notes.txt', which tilewright did not write and would remove; {WAY_OUT}"
    )
    assert refusal(written / "notes.txt") == f"{written / 'notes.txt'}: is a file, not a folder"


def test_a_folder_whose_list_is_damaged_is_its_own(written: Path) -> None:
    for name in LISTS:
        (written / name).write_text("{")
    (written / "notes.txt").touch()
    require_replaceable(written)


def test_a_folder_without_a_list_is_of_others(tmp_path: Path) -> None:
    (tmp_path / "gemm.c").touch()
    assert refusal(tmp_path) == (
        f"{tmp_path}: holds 'gemm.c' and is not a folder that tilewright wrote; {WAY_OUT}"
    )
