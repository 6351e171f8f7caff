"""Generated pages of the reference are what `make reference` writes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "tool", ["onnx_reference.py", "function_reference.py", "error_reference.py", "results.py"]
)
def test_a_generated_page_is_current(tool):
    folders = [str(ROOT / "benchmarks"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, ROOT / "tools" / tool, "--check"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)}, timeout=60
    )
    assert done.returncode == 0, "run `make reference`"
