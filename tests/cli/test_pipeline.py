"""`tilewright pipeline --minimum`: what it says without a loop, and of a program that fails."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
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
LOADS = """
main:   ldi $1, 3($31)
loop:   vldd $2, 0($3)
        vldd $4, 32($3)
        vldd $5, 64($3)
        vldd $6, 96($3)
        vldd $7, 128($3)
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


def test_an_iteration_is_all_of_its_loads_and_the_branch(tmp_path: Path) -> None:
    """One pipeline issues them."""
    assert "shortest schedule found: 6 cycles" in pipeline(tmp_path, LOADS, "--minimum")


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


TORRENT = """
loop:
    $v1 = m[$4+=$9].h
    $8 = $8 - 1
    if ($8 != $0) loop
    $v5 = $v5 + $v1
    goto $31
    nop
"""


def test_a_torrent_runs_on_the_arguments_and_data_of_a_file(tmp_path: Path) -> None:
    data = tmp_path / "x.npz"
    cycles = []
    for turns in (2, 5):
        np.savez(data, **{"$8": np.array(turns), "main": np.ones(640, "<i2")})
        told = pipeline(tmp_path, TORRENT, "-m", "cns1-128", "--input", str(data), "--json")
        cycles.append(json.loads(told)["total_cycles"])
    assert cycles[1] > cycles[0] + 3 * 10
    np.savez(data, **{"$v99": np.array(5)})
    assert pipeline(tmp_path, TORRENT, "-m", "cns1-128", "--input", str(data), code=1) == (
        "error: '$v99' is no register, memory or data of the program\n"
        "  fix: registers: $0 to $vs31; memories: cache, main, host; data: none\n"
    )


def test_the_machine_is_that_of_the_language(tmp_path: Path) -> None:
    source = tmp_path / "first.dla"
    source.write_text(".code\n  smove $1, #0\n")
    told = CliRunner().invoke(app, ["pipeline", str(source), "--json"])
    assert json.loads(told.stdout)["machine"] == "dla-al"


@pytest.mark.parametrize("option", [("--entry", "t"), ("--minimum",), ("--ideal-buses",)])
def test_what_is_about_a_pipeline_of_single_instructions_is_refused(tmp_path, option) -> None:
    source = tmp_path / "first.dla"
    source.write_text(".code\nt: smove $1, #0\n")
    told = CliRunner().invoke(app, ["pipeline", str(source), *option])
    assert (told.exit_code, told.stderr) == (
        2,
        "error: --entry, --minimum and --ideal-buses mean nothing on dla-al\n",
    )


def test_a_loop_that_never_ends_is_given_up(tmp_path: Path) -> None:
    source = tmp_path / "loop.dla"
    source.write_text(".code\nt: sadd $1, $1, #1\n  jump t\n")
    for command in ("simulate", "pipeline"):
        told = CliRunner().invoke(app, [command, str(source), "--max-cycles", "50"])
        assert (told.exit_code, told.stderr) == (
            1,
            "error: the core still runs after 50 cycles\n"
            "  fix: raise max_cycles (--max-cycles), or look for a loop that never ends\n",
        )
    source.write_text(".code\nt: jump t\n")
    told = CliRunner().invoke(app, ["simulate", str(source)])
    assert (told.exit_code, told.stderr) == (
        1,
        "error: instruction 0, line 2: jump -1: branches to itself and never ends\n",
    )
