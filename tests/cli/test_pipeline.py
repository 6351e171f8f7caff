"""`tilewright pipeline --minimum`: what it says without a loop, and of a program that fails."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tilewright.cli.main import app

STRAIGHT = """
main:   ldi $1, 3($31)
        halt
"""
LEAVES_MEMORY = """
main:   ldi $1, 8($31)
loop:   vldd $2, 0($3)
        vmad $2, $2, $4, $4
        ldih $3, 4($3)
        subl $1, 1, $1
        bne $1, loop
        halt
"""
ONCE = """
main:   ldi $1, 1($31)
loop:   vaddd $2, $2, $2
        subl $1, 1, $1
        bne $1, loop
        halt
"""


def pipeline(folder: Path, text: str, *arguments: str, code: int = 0) -> str:
    source = folder / "program.s"
    source.write_text(text)
    result = CliRunner().invoke(app, ["pipeline", str(source), *arguments])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def test_a_program_without_a_loop_has_no_minimum(tmp_path: Path) -> None:
    said = "no minimum: the program has no loop, and --minimum is about one iteration of a loop\n"
    assert pipeline(tmp_path, STRAIGHT, "--minimum").endswith(f"\n\n{said}")
    assert said not in pipeline(tmp_path, STRAIGHT)
    assert json.loads(pipeline(tmp_path, STRAIGHT, "--minimum", "--json"))["proven_minimum"] is None


def test_a_loop_that_ran_once_has_one(tmp_path: Path) -> None:
    assert "shortest schedule found: 7 cycles" in pipeline(tmp_path, ONCE, "--minimum")


def test_the_minimum_needs_no_run_that_succeeds(tmp_path: Path) -> None:
    failure = (
        "core 0 (instruction 1, line 3): vldd $2, 0($3): 32 bytes at address 262144 lie outside "
        "the 65536-byte local memory"
    )
    assert pipeline(tmp_path, LEAVES_MEMORY, code=1) == f"error: {failure}\n"
    assert pipeline(tmp_path, LEAVES_MEMORY, "--minimum").startswith(
        f"the program does not run: {failure}\n"
        "of its longest loop, instructions 1 to 5:\n"
        "shortest schedule found: 7 cycles per iteration\n"
    )
    found = json.loads(pipeline(tmp_path, LEAVES_MEMORY, "--minimum", "--json"))
    assert (found["instructions"], found["proven_minimum"], found["failure"]) == (5, 7, failure)
