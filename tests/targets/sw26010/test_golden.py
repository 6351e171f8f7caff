"""The generated files as texts: read `golden/` to see what the target makes of a program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.explicit_programs import GEMM, REGIONS, REPACK, SHARED, UNEVEN
from tilewright.codegen.artifact import write_artifact
from tilewright.ir.parser import parse
from tilewright.machine import load_machine
from tilewright.targets.sw26010.code import CODE
from tilewright.targets.sw26010.emulation.build import emulation_sources

MACHINE = load_machine("sw26010")
PROGRAMS = {p.name: p for p in map(parse, (GEMM, REGIONS, UNEVEN, REPACK, SHARED))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_slave(name, golden):
    artifact = CODE.emit(PROGRAMS[name], MACHINE)
    golden(f"{name}_slave.c", artifact.files[f"{name}_slave.c"])


@pytest.mark.parametrize(
    "name", ["gemm.h", "gemm_host.c", "spm_gemm.h", "spm_gemm.c", "gemm_gemm.S", "Makefile"]
)
def test_other_files(name, golden):
    golden(name, CODE.emit(PROGRAMS["gemm"], MACHINE).files[name])


def test_scratch_tensors_are_the_hosts(golden):
    golden("shared_host.c", CODE.emit(PROGRAMS["shared"], MACHINE).files["shared_host.c"])


@pytest.mark.parametrize("name", ["tw_primitives.h", "tw_primitives.c"])
def test_primitives(name, golden):
    golden(name, CODE.emit(PROGRAMS["gemm"], MACHINE).files[name])


def test_emission_is_reproducible():
    first, second = (CODE.emit(PROGRAMS["gemm"], MACHINE) for _ in range(2))
    assert first == second


def test_the_code_is_clean_c89(tmp_path: Path):
    """GNU C of 1989 without a warning: what an old compiler takes."""
    compiler = shutil.which("cc")
    assert compiler is not None
    (tmp_path / "emulation").mkdir()
    for name, text in emulation_sources().items():
        (tmp_path / "emulation" / name).write_text(text)
    flags = ["-std=gnu89", "-Wall", "-Wextra", "-Wdeclaration-after-statement", "-Werror"]
    for program in PROGRAMS.values():
        artifact = CODE.emit(program, MACHINE)
        write_artifact(artifact, tmp_path / artifact.name)
        sources = [str(tmp_path / artifact.name / n) for n in artifact.files if n.endswith(".c")]
        command = [compiler, *flags, f"-I{tmp_path / 'emulation'}", "-fsyntax-only", *sources]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stderr == ""
