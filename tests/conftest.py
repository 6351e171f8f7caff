"""Properties draw the same examples in every run, more and others with `make fuzz`.

What is compiled on the way is kept in the checkout, not among the user's own files, and the user's
calibration of the computer is not there. Bytecode of all modules is there before processes are
started, also where Python is told to write none: compiling them takes longer than most commands.
Tables are as wide as those of any output that is no terminal, whatever the terminal of the tests
is, and how long a command takes has no line.
"""

import gc
import os
from collections import defaultdict
from compileall import compile_dir
from pathlib import Path

import pytest
from hypothesis import settings

from support.emulation import emulate_avx512
from support.examples import QUICK, drawn, register_profiles
from support.golden import golden as golden
from tilewright.cli import output

register_profiles()
output.LINE_SECONDS = 3600.0
_OWN = Path(__file__).parents[1] / ".pytest_cache"
os.environ["XDG_CACHE_HOME"] = str(_OWN / "compiled")
os.environ["XDG_CONFIG_HOME"] = str(_OWN / "config")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts anew")
    parser.addoption(
        "--emulate-avx512",
        action="store_true",
        help="run code for AVX-512 on this processor, which has none (slow; no timings)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases that are one in several; all run in a profile that draws more."""
    if settings.default.max_examples > QUICK:
        return
    cases: dict[tuple[str, int], list[str]] = defaultdict(list)
    for item in items:
        for mark in item.iter_markers("one_in"):
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item.nodeid)
    kept = {key: drawn(names, key[1]) for key, names in cases.items()}
    left = {name for key, names in cases.items() for name in names if name not in kept[key]}
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
        items[:] = [item for item in items if item.nodeid not in left]


def pytest_collection_finish() -> None:
    """Modules and tests stay: whoever looks for cycles leaves a million objects out from now on."""
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("COLUMNS", None)
    if not hasattr(config, "workerinput"):  # once, not by each process of `-n`
        compile_dir(Path(output.__file__).parents[1], quiet=2)
    if config.getoption("--emulate-avx512"):
        emulate_avx512(_OWN / "emulation")
