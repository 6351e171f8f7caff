"""An interrupt while a command is imported, parsed or run is told, with the exit code of shells."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from tilewright.cli import commands


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
