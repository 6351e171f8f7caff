"""An interrupt while a command is imported, parsed or run is told, with the exit code of shells."""

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from tilewright.cli import main


def interrupt(*arguments: object, **options: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (main, "command"),
        (TyperGroup, "make_context"),
        ("tilewright.cli.machines", "list_machines"),
    ],
)
def test_an_interrupt_is_told(owner, name, monkeypatch):
    target = (f"{owner}.{name}",) if isinstance(owner, str) else (owner, name)
    monkeypatch.setattr(*target, interrupt)
    result = CliRunner().invoke(main.app, ["machines"])
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")
