"""An interrupt while a command is imported, parsed or run is told, with the exit code of shells."""

import ctypes
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from tilewright.cli import commands
from tilewright.cli.interrupts import interruptible, no_interrupt_lost


def interrupt(*arguments: object, **options: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (commands, "command"),
        (TyperGroup, "make_context"),
        ("tilewright.cli.machine_listing", "list_machines"),
    ],
)
def test_an_interrupt_is_told(owner, name, monkeypatch):
    target = (f"{owner}.{name}",) if isinstance(owner, str) else (owner, name)
    monkeypatch.setattr(*target, interrupt)
    result = CliRunner().invoke(commands.app, ["machines"])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


def swallow() -> None:
    """An interrupt in a callback from C, which ctypes ignores."""
    callback = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
    callback()


def swallow_and_go_on() -> None:
    with interruptible(), no_interrupt_lost():
        swallow()
        time.sleep(3600)


def test_an_interrupt_that_a_callback_swallows_is_raised_again(capsys):
    hook = sys.unraisablehook
    with pytest.raises(SystemExit, match=r"^130$"):
        swallow_and_go_on()
    assert capsys.readouterr().err == "interrupted\n"
    assert sys.unraisablehook is hook


def test_other_exceptions_that_a_callback_swallows_are_told(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: told.append(ignored.exc_type))
    with no_interrupt_lost():
        ctypes.CFUNCTYPE(None)(lambda: 1 // 0)()
    assert told == [ZeroDivisionError]


def test_an_interrupt_of_the_first_imports_is_told():
    call = """
import builtins, sys
imports = builtins.__import__
def interrupted(name, *arguments):
    if name == "typer":
        raise KeyboardInterrupt
    return imports(name, *arguments)
builtins.__import__ = interrupted
import tilewright.cli.main
"""
    sources = Path(commands.__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", call],
        env={"PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "interrupted\n")
