"""Fuzzing tools run: a few cases of each, so that a change that breaks one is seen at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = [
    "fuzz.cambricon --count 2 --seed 1",
    "fuzz.cns1 --count 1",
    "fuzz.definitions --count 5 --seed 1",
    "fuzz.definitions --count 1 --seed 1 --plans",
    "fuzz.definitions --count 5 --seed 1 --texts",
    "fuzz.dla --count 20",
    "fuzz.files machines --count 2 --folder {}",
    "fuzz.gradients 3 0",
    "fuzz.networks 1 0",
    "fuzz.onnx --count 2 --folder {}",
    "fuzz.partition --count 2",
    "fuzz.stages --count 1 --on reference",
    "fuzz.stages --count 1 --definitions --draw-schedules --on interpreter",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_some_cases_pass(command, tmp_path):
    """In processes of their own: some tools replace parts of the compiler."""
    words = [sys.executable, "-m", *command.format(tmp_path).split()]
    path = os.pathsep.join(str(ROOT / name) for name in ("src", "tests", "tools"))
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
