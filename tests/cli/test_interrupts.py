"""An interrupt while a command is imported, parsed or run is told, with the exit code of shells."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from tilewright.cli import commands
from tilewright.common.interrupts import no_interrupt_lost


def in_a_process(code: str) -> subprocess.CompletedProcess[str]:
    """Runs some lines in a Python of their own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(Path(commands.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )


def interrupt(*arguments: object, **options: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (commands, "command"),
        (TyperGroup, "make_context"),
        ("tilewright.cli.machines", "list_machines"),
    ],
)
def test_an_interrupt_is_told(owner, name, monkeypatch):
    target = (f"{owner}.{name}",) if isinstance(owner, str) else (owner, name)
    monkeypatch.setattr(*target, interrupt)
    result = CliRunner().invoke(commands.app, ["machines"])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_an_interrupt_that_a_callback_swallows_is_raised_again():
    """A callback from C, of which ctypes ignores exceptions, in a process without other signals."""
    run = in_a_process("""
import ctypes, signal, time
from tilewright.common.interrupts import interruptible, no_interrupt_lost
with interruptible(), no_interrupt_lost():
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()
    time.sleep(60)
""")
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "interrupted\n")


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
    run = in_a_process(call)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "interrupted\n")
