"""Processes that are killed while they compile, and what the next one finds of their cache.

In: the number of a round, which decides everything drawn in it. Out: what was done to the cache, or
an AssertionError where the next process does anything but work.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tilewright
from tilewright.codegen.c.compiler import compile_into, compile_key, loaded_library
from tilewright.common.cache.aside import PREFIX

UNITS = 3
"""Libraries of a round, one after the other."""
_USER = "the kills"
_FLAGS = ("-O1", "-shared", "-fPIC", "-o", "library.so")
_LONGEST_SECONDS = 120


@dataclass(frozen=True)
class Round:
    """Outcome of one round for the cache."""

    number: int
    processes: int
    killed_after_seconds: float
    left_aside: int
    damage: str


def compile_and_call(number: int, units: int) -> list[int]:
    """The answers of the libraries of a round, from the cache or compiled: run by a process."""
    found = []
    for unit in range(units):
        body = "".join(f"    x = x * {i + 3} + {number};\n" for i in range(200))
        sources = {"unit.c": f"int answer(int x)\n{{\n{body}    return x * 0 + {unit};\n}}\n"}

        def make(folder: Path, sources: dict[str, str] = sources) -> None:
            compile_into(folder, _USER, sources, _FLAGS)

        key = compile_key(_USER, sources, _FLAGS)
        found.append(loaded_library(_USER, "kills", key, make).answer(number))
    return found


def kill_round(number: int, cache: Path, span_seconds: float) -> Round:
    """Kill one or two processes at a drawn moment within the span, damage what they left, and
    require that the next process repairs it without a word.
    """
    draw = random.Random(number)
    processes = [_start(number, UNITS, cache) for _ in range(draw.choice((1, 2)))]
    seconds, with_compiler = draw.uniform(0, span_seconds), draw.random() < 0.5
    time.sleep(seconds)
    for process in processes:
        _kill(process, with_compiler)
    left_aside = len(list(cache.glob(f"tilewright/*/{PREFIX}*")))
    damage = _damage(draw, sorted(cache.glob("tilewright/*/*/*")))
    assert answers(number, cache) == (0, f"{list(range(UNITS + 1))}\n", "")
    assert list(cache.glob(f"tilewright/*/{PREFIX}*")) == []
    return Round(number, len(processes), round(seconds, 4), left_aside, damage)


def answers(number: int, cache: Path) -> tuple[int, str, str]:
    """(exit status, output, messages) of a process that is left in peace, with one library more."""
    process = _start(number, UNITS + 1, cache)
    output, messages = process.communicate(timeout=_LONGEST_SECONDS)
    return process.returncode, output, messages


def _start(number: int, units: int, cache: Path) -> subprocess.Popen[str]:
    paths = (Path(tilewright.__file__).parents[1], Path(__file__).parents[1])
    code = f"from support.cache_kills import *; print(compile_and_call({number}, {units}))"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "XDG_CACHE_HOME": str(cache),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[str], with_compiler: bool) -> None:
    """End the process alone, or its compiler at the same moment; the other one goes on."""
    if with_compiler:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate(timeout=_LONGEST_SECONDS)


def _damage(draw: random.Random, files: Sequence[Path]) -> str:
    """Do one thing to one file of an entry; its name."""
    ways: dict[str, Callable[[Path], object]] = {
        "none": lambda path: None,
        "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
        "emptied": lambda path: os.truncate(path, 0),
        "removed": Path.unlink,
        "stray": lambda path: path.with_name("stray").write_text(""),
        "tampered": lambda path: path.write_bytes(bytes(path.stat().st_size)),
        "emptied entry": lambda path: [each.unlink() for each in path.parent.iterdir()],
    }
    name, change = draw.choice(list(ways.items()))
    entries = [path for path in files if path.is_file()]
    if not entries or name == "none":
        return "none"
    change(draw.choice(entries))
    return name
