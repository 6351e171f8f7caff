"""Generated pages of the reference are what `make reference` writes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["errors", "functions", "onnx", "results"])
def test_a_generated_page_is_current(page):
    folders = [*(str(ROOT / name) for name in ("benchmarks", "tests", "tools"))]
    folders.append(os.environ.get("PYTHONPATH", ""))
    command = [sys.executable, "-m", f"reference.{page}", "--check"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)}, timeout=60
    )
    assert done.returncode == 0, "run `make reference`"
