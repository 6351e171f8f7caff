"""Checks beside the emission of kernels: what they tell and what is made meanwhile."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from tilewright.common.errors import ScheduleError
from tilewright.compiler import alone
from tilewright.compiler.alone import Checks, _checked
from tilewright.compiler.kernel import Kernel
from tilewright.compiler.settings import Settings
from tilewright.machine import load_machine
from tilewright.ops import Conv2d, relu

MACHINE = load_machine("sw26010")
LAYER = relu((4,))
PIECE = SimpleNamespace(describe=lambda: "piece")
OPTION = SimpleNamespace(algorithm="gemm", partition=SimpleNamespace(piece=PIECE))


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("count", [0, 2])
def test_a_folder_is_made_beside_the_checks_where_one_is_written(writes, count, monkeypatch):
    arranged, steps = [], []
    monkeypatch.setattr(Kernel, "arrange", lambda kernels, _: arranged.extend(kernels))
    settings = Settings(writes=writes, progress=lambda *step: steps.append(step))
    kernel = SimpleNamespace(
        option=OPTION, fitted_milliseconds=None, driven=None, priced_routines=(),
        with_check=lambda found: found,
    )  # fmt: skip
    checks = Checks(MACHINE, settings)
    for number in range(count):
        name, done = str(number), Future()
        done.set_result(SimpleNamespace(op=LAYER, option=OPTION, name=name, checked="exact"))
        checks._wanted[name], checks._running[name] = (LAYER, OPTION), done
    with checks:
        kernels, found = checks.finished({LAYER: kernel})
    assert steps == [("check", done, count) for done in range(count + 1) if count]
    assert arranged == ([kernel] if writes and count else [])
    assert kernels == {LAYER: "exact" if count else kernel}
    assert [(one.name, one.check) for one in found] == [(str(n), "exact") for n in range(count)]


@pytest.mark.parametrize("wins", [True, False])
def test_only_an_option_that_lost_is_emitted_for_its_check(wins, monkeypatch):
    monkeypatch.setattr(alone, "replace", lambda case, **given: (case, given.get("checked")))
    monkeypatch.setattr(alone, "_with_less_work", lambda case, option: (case[0], option))
    monkeypatch.setattr(alone, "with_option", lambda case, option: "emitted")
    monkeypatch.setattr(alone, "_ran", lambda case: f"ran {case}")
    kernel = SimpleNamespace(option=OPTION if wins else None)
    case = kernel if wins else "emitted"
    assert _checked(kernel, OPTION) == (case, f"ran {case}")


@pytest.mark.parametrize(
    ("batch", "fewer"),
    [
        (64, [(4, 8), (8, 8), (16, 8), (32, 8), (64, 4)]),
        (6, [(3, 8), (6, 4)]),
        (7, [(7, 4)]),
        (5, []),
    ],
)
def test_images_and_then_rows_are_halved_while_they_are_more_than_enough_work(
    batch, fewer, monkeypatch
) -> None:
    """The fewest first, of which an algorithm may want more; four rows at least."""
    tried = []

    def refused(option: object, op: Conv2d, machine: object) -> None:
        tried.append((op.batch, op.height))
        raise ScheduleError("more images")

    monkeypatch.setattr(alone, "option_like", refused)
    monkeypatch.setattr(alone, "_host_work", lambda op: 125_000_000 * op.batch * op.height)
    op = Conv2d(batch, 2, 2, 8, 4, (1, 1))
    option = SimpleNamespace(partition=SimpleNamespace(piece=op))
    kernel = SimpleNamespace(op=op, machine=MACHINE)
    assert alone._with_less_work(kernel, option) == (kernel, option)
    assert tried == fewer


@pytest.mark.parametrize(
    ("height", "kernel", "dilation", "rows"),
    [
        (7, 3, 1, 4),
        (6, 3, 1, None),
        (16, 7, 1, 8),
        (14, 7, 1, None),
        (12, 3, 2, 6),
        (10, 3, 2, None),
    ],
)
def test_images_keep_more_rows_than_a_window_reaches(height, kernel, dilation, rows) -> None:
    op = Conv2d(1, 2, 2, height, 4, (kernel, 1), dilation=(dilation, 1))
    found = alone._half_the_rows(op)
    assert (found and found.height) == rows
