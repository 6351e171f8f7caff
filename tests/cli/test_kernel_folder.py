"""`tilewright check` on the folder of a kernel: its files are those that were written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app

GEMM = ("gemm", "--m", 64, "--n", 64, "--k", 32, "-m", "sw26010_cg")


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.stdout if code in (0, 3) else result.stderr


@pytest.fixture
def written(tmp_path: Path) -> Path:
    run("compile", *GEMM, "-o", tmp_path / "kernel")
    return tmp_path / "kernel"


def test_check_names_files_that_are_missing_or_changed(written: Path) -> None:
    stored = {path.name for path in written.iterdir()} - {"kernel.json"}
    assert run("check", written).endswith(f"{2 + len(stored)} checks on sw26010_cg, 0 refused\n")
    routine, dispatch = written / "gemm_gemm.S", written / "spm_gemm.c"
    text = routine.read_text()
    assert "vmad " in text
    routine.write_text(text.replace("vmad ", "vmsd ", 1))
    dispatch.unlink()
    (written / "tw_map_e81fd92c1d_f64.S").unlink()
    (written / "schedule.txt").write_text("another")
    fix = "         fix: compile the kernel again"
    found = run("check", written, code=3).splitlines()
    assert [line for line in found if not line.startswith("ok ")] == [
        f"refused  {routine}: as it was written: has changed since it was written",
        fix,
        f"refused  {written / 'schedule.txt'}: as it was written: has changed since it was written",
        fix,
        f"refused  {dispatch}: as it was written: is missing",
        fix,
        f"refused  {written / 'tw_map_e81fd92c1d_f64.S'}: as it was written: is missing",
        fix,
        f"{2 + len(stored)} checks on sw26010_cg, 4 refused",
    ]


def test_a_folder_of_an_older_version_has_no_digests_and_one_of_a_stranger_no_paths(
    written: Path,
) -> None:
    file = written / "kernel.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({**stored, "digests": {"../kernel.json": "0"}}))
    assert run("check", written, code=1) == (
        f"error: {file}: '../kernel.json' is not the name of a generated file\n"
    )
    del stored["digests"]
    file.write_text(json.dumps(stored))
    (written / "spm_gemm.c").unlink()
    assert run("check", written).endswith("2 checks on sw26010_cg, 0 refused\n")
