"""The disk cache of compiled functions follows every source that they are compiled from."""

from __future__ import annotations

import importlib
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tilewright.common.cache import CacheStore, store
from tilewright.common.compiled import entry_point, piece

BOX = """
from typing import NamedTuple
class Box(NamedTuple):
    width: float
    height: float
FACTOR = {factor}
"""
AREA = """
from tilewright.common.compiled import entry_point
import {home}
from {home} import FACTOR
@entry_point({home})
def area(box):
    return FACTOR * box.width * box.height
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, home: str, factor: int) -> tuple[float, int]:
    """(result, hits of the disk cache) of the function with its class in the module `home`."""
    for name, text in ((home, BOX), ("tilewright_area", AREA)):
        (folder / f"{name}.py").write_text(text.format(home=home, factor=factor))
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    area: Any = importlib.import_module("tilewright_area").area
    result = area(sys.modules[home].Box(2.0, 3.0))
    return result, sum(area.stats.cache_hits.values())


def test_the_cache_follows_the_sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = "tilewright_first_home", "tilewright_second_home"
    assert run(folder, monkeypatch, first, 1) == (6.0, 0)
    assert run(folder, monkeypatch, first, 1) == (6.0, 1)
    assert run(folder, monkeypatch, first, 10) == (60.0, 0)
    (folder / f"{first}.py").write_text("")
    assert run(folder, monkeypatch, second, 10) == (60.0, 0)
    assert run(folder, monkeypatch, second, 10) == (60.0, 1)


def test_a_damaged_function_is_compiled_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = "tilewright_damaged_home"
    assert run(folder, monkeypatch, home, 1) == (6.0, 0)
    (kept,) = folder.glob("cache/tilewright/functions/*/value")
    os.truncate(kept, 100)
    assert run(folder, monkeypatch, home, 1) == (6.0, 0)
    assert run(folder, monkeypatch, home, 1) == (6.0, 1)


def test_an_installation_may_bring_functions_compiled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = "tilewright_installed_home"
    assert run(folder, monkeypatch, home, 1) == (6.0, 0)
    (kept,) = folder.glob("cache/tilewright/functions/*/value")
    monkeypatch.setattr(store, "INSTALLED", folder)
    (folder / "functions").mkdir()
    kept.rename(folder / "functions" / kept.parent.name)
    shutil.rmtree(folder / "cache")
    assert run(folder, monkeypatch, home, 1) == (6.0, 1)
    assert not (folder / "cache").exists()
    assert run(folder, monkeypatch, home, 10) == (60.0, 0)


class Planted:
    """Stands for a foreign pickle, which acts as it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("foreign code ran",))


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_planted_function_is_not_loaded(
    mode: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, cache = "tilewright_planted_home", folder / "cache" / "tilewright"
    assert run(folder, monkeypatch, home, 1) == (6.0, 0)
    (kept,) = cache.glob("functions/*")
    key, planted = kept.name, pickle.dumps(Planted())
    shutil.rmtree(kept)
    CacheStore("functions").remember(key, planted)
    cache.chmod(mode)
    assert run(folder, monkeypatch, home, 1) == (6.0, 0)
    assert run(folder, monkeypatch, home, 1) == (6.0, 1)


@piece
def _scaled(value: float, times: int) -> float:
    return value * times


@piece
def _twice(value: float) -> float:
    return _scaled(value, 2) + _scaled(value, 0)


@entry_point()
def _scaled_sums(values: Any, times: int) -> float:
    found = 0.0
    for i in range(len(values)):
        found += _twice(values[i]) + _scaled(values[i], times)
    return found


@pytest.mark.usefixtures("folder")
def test_a_piece_is_compiled_once_and_linked_where_it_is_called() -> None:
    assert _scaled_sums(np.array([1.0, 2.0, 0.5]), 4) == 3.5 * (2 + 4)
    for one in (_scaled, _twice):
        assert len(cast(Any, one).signatures) == 1


RECORDS = """
import sys
import numpy as np
from tilewright.common.compiled import at, entry_point, piece

@piece
def too_long_to_be_inlined(first, count):
    found = 0
    for k in range(count):
        value = at(first, k).value
{steps}
    return found

@entry_point()
def last(records):
    first, count = records[0], len(records)
    return too_long_to_be_inlined(first, count) + too_long_to_be_inlined(first, 1)

for padding in map(int, sys.argv[1:]):
    records = np.zeros(8, [("padding", "i8", (padding,)), ("value", "i8")])
    records["value"] = np.arange(8)
    print(last(records), *last.stats.cache_hits.values())
"""


STEPS = "        found = max(found, value) ^ (found & 8)\n" * 40


def test_functions_for_records_of_several_processes_keep_apart(tmp_path: Path) -> None:
    """Each of two processes keeps the function for one kind of record, a third one uses both."""
    program = tmp_path / "program.py"
    program.write_text(RECORDS.format(steps=STEPS))

    def run_program(*paddings: str) -> str:
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        call = [sys.executable, str(program), *paddings]
        return subprocess.run(call, env=environment, capture_output=True, text=True).stdout

    assert run_program("1") == "7\n"
    assert run_program("200") == "7\n"
    assert run_program("1", "200") == "7 1\n7 1 1\n"
