"""A pipe in the place of a file is refused in words: reading it would wait without end."""

import os

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app

GEMM = ("gemm", "--m", "16", "--n", "16", "--k", "16", "--machine", "sw26010_cg")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("machines", "./a.toml"), "a.toml: cannot be read: it is not a regular file"),
        (("asm", "a.s"), "a.s: cannot read it: it is not a regular file"),
        (("asm", "a.dla"), "a.dla: cannot read it: it is not a regular file"),
        (("objdump", "a.o"), "a.o: cannot read it: it is not a regular file"),
        (("pipeline", "a.s"), "a.s: cannot read it: it is not a regular file"),
        (("debug", "a.dla"), "a.dla: it is not a regular file"),
        (("simulate", "a.ir"), "a.ir: cannot be read: it is not a regular file"),
        (("compile", *GEMM, "--schedule", "a.txt"), "a.txt: it is not a regular file"),
        (
            ("tune", *GEMM, "--records", "a.db"),
            "a.db: cannot be used for tuning records: it is not a regular file\n"
            "  fix: give another file, or move this one away",
        ),
        (("reproduce", "swdnn/table2", "--rows", "a.csv"), "a.csv: it is not a regular file"),
    ],
)
def test_a_pipe_is_refused(words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(told.partition(":")[0])
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"error: {told}\n")
