"""The stepper: breakpoints, watched elements, steps back, data; and what it refuses, in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app

SOURCE = """\
.code
  smove $1, #0
  smove $2, #4
  smove $3, #3
  vload $1, $2, #x
turn:
  vav $1, $2, $1, $1
  ssub $3, #1
  cb $3, turn
  vstore $1, $2, #y
.static_rw
@neuron x, 1, 1, 1, 4
@neuron y, 1, 1, 1, 4, 1, 1, 1, 2
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.dla").write_text(SOURCE)
    np.savez("x.npz", x=np.array([1, 2, 3, 4]))


def session(commands: str, *, typed: str | None = None) -> list[str]:
    """What is shown after the place where a session begins."""
    arguments = ["debug", "p.dla", "--input", "x.npz"]
    given = [] if typed is not None else ["--commands", commands]
    result = CliRunner().invoke(app, [*arguments, *given], input=typed)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()[4:]


def test_breakpoints_and_registers() -> None:
    assert session("break turn; run; run; registers") == [
        "breakpoint at instruction 4",
        "breakpoint",
        "4 instructions, cycle 3",
        " >     4  turn: vav $1, $2, $1, $1  line 7",
        "       5  ssub $3, $3, #1  line 8",
        "       6  cb $3, -3  line 9",
        "breakpoint",
        "7 instructions, cycle 5",
        " >     4  turn: vav $1, $2, $1, $1  line 7",
        "       5  ssub $3, $3, #1  line 8",
        "       6  cb $3, -3  line 9",
        "$2 = 4, $3 = 2",
    ]


def test_a_watched_write() -> None:
    assert session("watch vector 1 2; run; run")[1:2] == [
        "2 watched elements of vector changed, the first at 1: 0 to 2"
    ]


def test_to_the_end_and_back() -> None:
    shown = session("run; print y; print y 0 0 0 1; back 1; print y; memory vector 0 4")
    assert shown[:2] == ["the program has ended", "14 instructions, cycle 113"]
    assert shown[3:5] == ["[[[[ 8 16]]]]", "[[[[24 32]]]]"]
    assert shown[-2:] == ["[[[[0 0]]]]", "[ 8 16 24 32]"]


def test_commands_that_are_typed() -> None:
    assert session("", typed="step 2\nregisters\nquit\n")[-1] == "$2 = 4"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("brake", ["error: no command 'brake'", "  fix: did you mean 'break'?"]),
        ("break trun", ["error: no label 'trun'", "  fix: did you mean 'turn'?"]),
        ("step two", ["error: 'two' is no number"]),
        ("memory matrx 0 1", ["error: no memory 'matrx'", "  fix: memories: main, vector, matrix"]),
        (
            "watch vector 32767 2",
            [
                "error: 2 elements at address 32767 lie outside the 32768 elements of the vector "
                "memory"
            ],
        ),
        ("print y 0 0 0 2", ["error: y has 1 x 1 x 1 x 2 segments"]),
        ("print z", ["error: the program declares no 'z'", "  fix: it declares x, y"]),
    ],
)
def test_what_is_refused(command: str, message: list[str]) -> None:
    assert session(command) == message
