"""The stepper: breakpoints, watched elements, steps back, data; and what it refuses, in words."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tilewright.cli.debug import _commands
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
    """Output after the place where a session begins."""
    arguments = ["debug", "p.dla", "--input", "x.npz"]
    given = [] if typed is not None else ["--commands", commands]
    result = CliRunner().invoke(app, [*arguments, *given], input=typed)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()[4:]


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["debug", *arguments])
    assert result.exit_code == 1, result.output
    return result.stderr


def test_breakpoints_and_registers() -> None:
    assert session("break turn; run; run; registers") == [
        "breakpoint at instruction 4",
        "breakpoint",
        "4 instructions, cycle 3",
        " >     4  turn: vav $1, $2, $1, $1  line 7",
        "       5  ssub $3, $3, #1           line 8",
        "       6  cb $3, -3                 line 9",
        "breakpoint",
        "7 instructions, cycle 5",
        " >     4  turn: vav $1, $2, $1, $1  line 7",
        "       5  ssub $3, $3, #1           line 8",
        "       6  cb $3, -3                 line 9",
        "$2 = 4, $3 = 2",
    ]


def test_registers_that_nothing_has_written() -> None:
    assert session("registers") == ["all registers are zero"]


def test_a_watched_write() -> None:
    assert session("watch vector 1 2; run; run")[1:2] == [
        "2 watched elements of vector changed, the first at 1: 0 to 2"
    ]


def test_watched_data_is_named_by_its_indices() -> None:
    shown = session("watch y; run; run; clear; watch y 0 0 0 1; back 20; run")
    assert shown[:2] == [
        "watching 4 elements of y",
        "4 watched elements of y changed, the first at 0 0 0 0: 0 to 8",
    ]
    assert shown[4] == "the program has ended"
    assert shown[7] == "watching 2 elements of y"
    assert shown[-3:] == [
        "2 watched elements of y changed, the first at 0 0 0 2: 0 to 24",
        "14 instructions, cycle 113",
        "  end",
    ]


def test_a_stop_at_a_line_of_the_source() -> None:
    assert session("break line 8; run")[:4] == [
        "breakpoint at instruction 5",
        "breakpoint",
        "5 instructions, cycle 3",
        " >     5  ssub $3, $3, #1      line 8",
    ]


def test_to_the_end_and_back() -> None:
    shown = session("run; print y; print y 0 0 0 1; back 1; print y; memory vector 0 4")
    assert shown[:2] == ["the program has ended", "14 instructions, cycle 113"]
    assert shown[3:5] == ["[[[[0.03125 0.0625 ]]]]", "[[[[0.09375 0.125  ]]]]"]
    assert shown[-2:] == ["[[[[0. 0.]]]]", "[ 8 16 24 32]"]


def test_commands_that_are_typed() -> None:
    assert session("", typed="step 2\nregisters\nquit\n")[-1] == "$2 = 4"


def test_a_terminal_shows_a_prompt_on_the_line_of_each_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = StringIO("step 2\n quit \n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    assert list(_commands(None)) == ["step 2", "quit"]
    assert capsys.readouterr().out == "(debug) " * 3


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("brake", ["error: no command 'brake'", "  fix: did you mean 'break'?"]),
        ("break trun", ["error: no label 'trun'", "  fix: did you mean 'turn'?"]),
        ("step two", ["error: 'two' is no number"]),
        (
            "memory vector",
            [
                "error: a memory, an address and a number of elements are needed",
                "  fix: memories: main, vector, matrix",
            ],
        ),
        (
            "memory matrx 0 1",
            [
                "error: no memory 'matrx'",
                "  fix: memories: main, vector, matrix; the program declares x, y",
            ],
        ),
        (
            "watch y 1",
            [
                "error: y has 1 x 1 x 1 x 2 segments",
                "  fix: give four numbers, each from 0 to one less",
            ],
        ),
        (
            "break line 6",
            [
                "error: line 6 has no instructions",
                "  fix: the next line that has is 7; those of a macro have the lines of its "
                "definition",
            ],
        ),
        *(
            (words, ["error: break takes a label, a number, or the word line and its number"])
            for words in ("break", "break turn 1", "break line 7 8")
        ),
        ("print", ["error: print takes the name of declared data"]),
        ("break line", ["error: no label 'line'", "  fix: labels: turn"]),
        (
            "watch vector 32767 2",
            [
                "error: 2 elements at address 32767 lie outside the 32768 elements of the vector "
                "memory"
            ],
        ),
        (
            "print y 0 0 0 2",
            [
                "error: y has 1 x 1 x 1 x 2 segments",
                "  fix: give four numbers, each from 0 to one less",
            ],
        ),
        ("print z", ["error: the program declares no 'z'", "  fix: it declares x, y"]),
    ],
)
def test_what_is_refused(command: str, message: list[str]) -> None:
    assert refusal("p.dla", "--input", "x.npz", "--commands", f"{command}; step") == "\n".join(
        [*message, ""]
    )
    assert session("", typed=f"{command}\nquit\n") == message


def test_real_numbers_are_printed_as_such_and_stored_in_fixed_point() -> None:
    np.savez("x.npz", x=np.array([0.5, 1, -0.25, 0]))
    assert session("print x; memory main 0 4") == [
        "[[[[ 0.5   1.   -0.25  0.  ]]]]",
        "[128 256 -64   0]",
    ]


def test_registers_and_memories_from_a_file() -> None:
    given = {"$7": np.array(3), "vector": np.arange(4)}
    np.savez("x.npz", x=np.array([1, 2, 3, 4]), **given)
    assert session("registers; memory vector 0 5; step; back; registers")[:2] == [
        "$7 = 3",
        "[0 1 2 3 0]",
    ]
    np.savez("x.npz", vector=np.zeros(40_000))
    assert refusal("p.dla", "--input", "x.npz", "--commands", "step") == (
        "error: 40000 elements for 'vector' are more than the 32768 of the memory\n"
    )


CORE = """\
        ldi $1, 2($31)
        ldi $3, x($31)
loop:   ldw $2, 0($3)
        addl $2, 3, $2
        stw $2, 0($3)
        subl $1, 1, $1
        bne $1, loop
        halt
        .data
x:      .word 7
"""


def test_a_core_alone_goes_by_the_cycles_in_which_something_issues() -> None:
    Path("k.s").write_text(CORE)
    commands = "break loop; run; run; registers; watch local 0 1; run; back 2; run; run; print x"
    result = CliRunner().invoke(app, ["debug", "k.s", "--commands", commands])
    assert result.exit_code == 1, result.output
    again = [
        "7 instructions, cycle 8",
        " >     2  loop: ldw $2, 0($3)  line 3",
        "       3  addl $2, 3, $2       line 4",
        "       4  stw $2, 0($3)        line 5",
    ]
    shown = result.output.splitlines()[4:]
    assert shown[:6] == ["breakpoint at instruction 2", "breakpoint", "2 instructions, cycle 1",
                         *again[1:]]  # fmt: skip
    assert shown[6:12] == ["breakpoint", *again, "$1 = 1, $2 = 10, $26 = 65568"]
    assert shown[12:14] == [
        "watching 1 element of local",
        "1 watched element of local changed, the first at 0: 5e-323 to 6.4e-323",
    ]
    assert shown[-3:] == ["  end", "error: the program declares no data",
                          "  fix: memory shows elements"]  # fmt: skip
    assert result.stderr.startswith("error: ")


def test_registers_memories_and_data_of_a_core_alone() -> None:
    Path("k.s").write_text(CORE)
    np.savez("x.npz", **{"$5": np.array(9), "$6": np.array([0.5, 2.0]), "x": np.array([40])})
    arguments = ["debug", "k.s", "--input", "x.npz", "--commands", "registers; step 4; registers"]
    shown = CliRunner().invoke(app, arguments).output.splitlines()
    assert shown[4] == "$5 = 9, $6 = [0.5, 2.0, 0.0, 0.0], $26 = 65568"
    assert "$2 = 43" in shown[-1]
    np.savez("x.npz", y=np.zeros(1))
    assert refusal("k.s", "--input", "x.npz") == (
        "error: 'y' is no register, memory or data of the program\n"
        "  fix: registers: $0 to $31; memories: local; data: x\n"
    )
    np.savez("x.npz", local=np.zeros(10_000))
    assert refusal("k.s", "--input", "x.npz") == (
        "error: 80000 bytes for 'local' at address 0 lie outside the 65536-byte local memory\n"
    )
    np.savez("x.npz", **{"$5": np.array([1, 2])})
    assert refusal("k.s", "--input", "x.npz") == (
        "error: register '$5' takes one integer, or real numbers as its lanes\n"
    )
