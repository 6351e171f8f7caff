"""Generated pages of the reference are what `make reference` writes."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool", ["onnx_reference.py"])
def test_a_generated_page_is_current(tool):
    done = subprocess.run([sys.executable, ROOT / "tools" / tool, "--check"], timeout=60)
    assert done.returncode == 0, "run `make reference`"
