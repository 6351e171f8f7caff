"""Results that cannot be written: one message that names the place, and no broken files."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app

GEMM = ("gemm", "--m", "16", "--n", "16", "--k", "16", "--machine", "host_portable")
RUN = ("run", *GEMM, "--output")


def tilewright(words: tuple[str, ...], redirection: str) -> tuple[int, str]:
    """Exit code and standard error of a process whose output the shell redirects."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "-", sys.executable, "-m", "tilewright", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("machines", "--help"),
        ("machines",),
        ("machines", "--json"),
        ("machines", "nope", "--json"),
    ],
)
def test_a_full_standard_output_is_one_message(words):
    message = "error: standard output: No space left on device\n"
    assert tilewright(words, ">/dev/full") == (1, message)


@pytest.mark.parametrize("words", [("machines",), ("machines", "--json"), ("--help",)])
def test_a_closed_standard_output_is_not_wanted(words):
    assert tilewright(words, ">&-") == (0, "")


@pytest.mark.parametrize("words", [("machines",), ("machines", "--json"), ("--help",)])
def test_a_reader_that_has_left_is_no_error(words):
    assert tilewright(words, "| exec true") == (0, "")


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Longer files fail as on a full disk, with other words."""
    _, hard = old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def refused(*words: str) -> str:
    with files_of_at_most(100):
        result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (1, "")
    return result.stderr


def test_a_result_that_does_not_fit_leaves_the_file_before(tmp_path):
    out = tmp_path / "r.npz"
    ran = CliRunner().invoke(app, [*RUN, str(out)])  # compiles it, too
    assert ran.exit_code == 0
    before = out.read_bytes()
    assert refused(*RUN, str(out)) == f"error: {out}: cannot be written: File too large\n"
    assert (out.read_bytes(), os.listdir(tmp_path)) == (before, ["r.npz"])


def test_a_result_has_the_name_that_is_given(tmp_path):
    out = tmp_path / "result"
    ran = CliRunner().invoke(app, [*RUN, str(out)])
    assert f"written to {out}\n" in ran.stdout
    assert os.listdir(tmp_path) == ["result"]
    with np.load(out) as arrays:
        assert {name: arrays[name].shape for name in arrays.files} == {"c": (16, 16)}
    folder = CliRunner().invoke(app, [*RUN, str(tmp_path)])
    assert folder.stderr == f"error: {tmp_path}: cannot be written: Is a directory\n"


def test_a_report_that_does_not_fit_leaves_nothing(tmp_path):
    kernel, page = tmp_path / "kernel", tmp_path / "r.html"
    assert CliRunner().invoke(app, ["compile", *GEMM, "-o", str(kernel)]).exit_code == 0
    message = f"error: {page}: cannot be written: File too large\n"
    assert refused("report", str(kernel), "-o", str(page)) == message
    assert os.listdir(tmp_path) == ["kernel"]


def test_records_that_do_not_fit_leave_nothing(tmp_path):
    records = tmp_path / "t.db"
    assert refused("tune", *GEMM, "--records", str(records)) == (
        f"error: {records}: cannot be used for tuning records: disk I/O error\n"
        "  fix: free space, or give a file on another disk\n"
    )
    assert os.listdir(tmp_path) == []


def test_a_device_is_not_replaced(tmp_path: Path):
    (tmp_path / "a.s").write_text("vmad $1, $2, $3, $3\n")
    ran = CliRunner().invoke(app, ["asm", str(tmp_path / "a.s"), "-o", "/dev/full"])
    assert ran.stderr == "error: /dev/full: cannot write it: No space left on device\n"
    assert Path("/dev/full").is_char_device()
