"""Calls are made once each, by this process or by copies of it, whatever some of them raise."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from tilewright.tune.executors import call_beside


def children() -> set[str]:
    """Processes that this one started and has not waited for."""
    tasks = Path("/proc/self/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


def note(folder: Path, number: int) -> None:
    (folder / f"{number}-{os.getpid()}").touch()
    if number % 3 == 0:
        raise ValueError(number)


@pytest.mark.parametrize("cores", [2, 5])
def test_every_call_is_made_once(
    cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    told, others = list[tuple[int, int]](), children()
    call_beside([partial(note, tmp_path, n) for n in range(20)], lambda *t: told.append(t))
    made = sorted(int(path.name.partition("-")[0]) for path in tmp_path.iterdir())
    assert made == list(range(20))
    mine = [path for path in tmp_path.iterdir() if path.name.endswith(f"-{os.getpid()}")]
    assert told == sorted((int(path.name.partition("-")[0]), 20) for path in mine)
    assert children() == others


def test_more_calls_than_a_pipe_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with (tmp_path / "made").open("ab", buffering=0) as made:
        call_beside([partial(made.write, b"%7d\n" % n) for n in range(20_000)])
    numbers = map(int, (tmp_path / "made").read_text().split())
    assert sorted(numbers) == list(range(20_000))


def test_one_core_leaves_them_to_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    call_beside([partial(note, tmp_path, n) for n in range(3)])
    assert not list(tmp_path.iterdir())


def test_an_interruption_ends_the_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})

    def interrupted(_: int, total: int) -> None:
        raise KeyboardInterrupt

    def endless() -> None:
        while os.getppid() > 1:
            pass

    copies, others = [endless] * 2, children()
    with pytest.raises(KeyboardInterrupt):
        call_beside([*copies, partial(note, tmp_path, 1)], interrupted)
    assert children() == others
